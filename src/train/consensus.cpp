// SPDX-License-Identifier: Apache-2.0
#include "train/consensus.h"

#include "backend/eigh.h"
#include "base/eigen.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace kedge {
namespace {

/// Columns of one space among all, as Eigen counts them.
struct Columns {
  Eigen::Index first, dim;
};

std::vector<Columns> columns_of(std::span<const Space> spaces) {
  std::vector<Columns> all;
  Eigen::Index first = 0;
  for (const Space& space : spaces) {
    all.push_back({first, static_cast<Eigen::Index>(space.dim())});
    first += all.back().dim;
  }
  return all;
}

/// The covariance of the whitened spaces side by side, L_i Sigma_ij L_j in every block, in place.
void whiten_blocks(Matrix64& covariance, std::span<const Columns> columns, std::span<const Whitening> whitenings) {
  auto all = as_eigen(covariance.view());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto left = as_eigen(whitenings[i].whitener.view());
    for (std::size_t j = i; j < columns.size(); ++j) {
      auto block = all.block(columns[i].first, columns[j].first, columns[i].dim, columns[j].dim);
      const EigenRows<double> half = left * block;
      block.noalias() = half * as_eigen(whitenings[j].whitener.view());
      all.block(columns[j].first, columns[i].first, columns[j].dim, columns[i].dim) = block.transpose();
    }
  }
}

/// How far the spaces agree on a direction: 0 where they are independent or contradict each other, about 1 where all
/// say the same. (Shrinkage lets the variance of strong directions be a little above 1, and so this.) One space always
/// agrees with itself.
double agreement(double eigenvalue, std::size_t spaces) {
  if (spaces == 1) return 1;
  constexpr double kRounding = 1e-9;
  const double above = (eigenvalue - 1) / static_cast<double>(spaces - 1);
  return above > kRounding ? above : 0;
}

/// Eigenpairs that have variance, and no more than centred rows have directions.
std::size_t directions(std::span<const double> ascending, std::size_t rows, std::size_t dim) {
  const double rounding = ascending.back() * static_cast<double>(dim) * std::numeric_limits<double>::epsilon();
  const auto varying =
      static_cast<std::size_t>(std::ranges::count_if(ascending, [&](double value) { return value > rounding; }));
  return std::min(varying, std::max<std::size_t>(rows - 1, 1));
}

}  // namespace

Consensus find_consensus(const ConsensusTask& task, Moments joint, const ConsensusOptions& options) {
  if (!(options.power >= 0) || std::isinf(options.power)) {
    throw Error(Code::bad_argument, fmt::format("power is {}, expected a number of 0 or more", options.power));
  }
  const std::vector<Columns> columns = columns_of(task.spaces);
  const std::size_t dim = joint.mean.size();
  whiten_blocks(joint.covariance, columns, task.whitenings);
  const Eigenpairs pairs = eigh_largest(std::move(joint.covariance), task.anchors);
  const std::size_t anchors = directions(pairs.values, joint.rows, dim);
  if (agreement(pairs.values.back(), task.spaces.size()) == 0) {
    throw Error(Code::bad_argument,
                "the spaces agree on no direction at all; are their rows the same inputs in the same order? If so, "
                "lower the shrinkage");
  }

  Consensus result{Matrix(task.support_ids.size(), anchors), {}, 0};
  EigenRows<double> scores(static_cast<Eigen::Index>(anchors), static_cast<Eigen::Index>(dim));
  for (std::size_t a = 0; a < anchors; ++a) {
    const std::size_t from = pairs.values.size() - 1 - a;
    const double value = pairs.values[from];
    const auto direction = as_eigen(pairs.vectors.row(from));
    Eigen::Index largest = 0;
    direction.cwiseAbs().maxCoeff(&largest);
    const double sign = direction[largest] < 0 ? -1 : 1;  // LAPACK's choice may differ between machines
    const double agreed = agreement(value, task.spaces.size());
    const double weight = agreed > 0 ? std::pow(agreed, options.power) : 0;
    const double scale = sign * weight / std::sqrt(value);
    scores.row(static_cast<Eigen::Index>(a)) = scale * direction;
    result.eigenvalues.push_back(value);
    if (weight > 0) ++result.agreed;
  }
  EigenRows<double> targets =
      EigenRows<double>::Zero(static_cast<Eigen::Index>(task.support_ids.size()), static_cast<Eigen::Index>(anchors));
  for (std::size_t i = 0; i < task.spaces.size(); ++i) {
    Matrix64 support = task.spaces[i].gather(task.support_ids);
    auto centred = as_eigen(support.view());
    centred.rowwise() -= as_eigen(std::span(task.whitenings[i].mean));
    const auto own = scores.middleCols(columns[i].first, columns[i].dim);
    const EigenRows<double> whitened = own * as_eigen(task.whitenings[i].whitener.view());
    targets.noalias() += centred * whitened.transpose();
  }
  as_eigen(result.targets.view()) = targets.cast<float>();
  return result;
}

}  // namespace kedge
