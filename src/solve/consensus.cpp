// SPDX-License-Identifier: Apache-2.0
#include "solve/consensus.h"

#include "backend/eigh.h"
#include "backend/products.h"
#include "base/eigen.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace kedge {
namespace {

/// Columns of one space among all.
struct Columns {
  std::size_t first, dim;
};

std::vector<Columns> columns_of(std::span<const Matrix64> supports) {
  std::vector<Columns> all;
  std::size_t first = 0;
  for (const Matrix64& support : supports) {
    all.push_back({first, support.cols()});
    first += all.back().dim;
  }
  return all;
}

/// The variance that each direction, a row, has within the spaces.
std::vector<double> own_variances(const Matrix64& directions, const Matrix64& covariance,
                                  std::span<const Columns> columns) {
  std::vector<double> own(directions.rows());
  for (const auto& [first, dim] : columns) {
    const auto part = directions.view().middle_cols(first, dim);
    const EigenRows<double> turned = product(part, covariance.view().middle_rows(first, dim).middle_cols(first, dim));
    for (std::size_t r = 0; r < own.size(); ++r) {
      own[r] += turned.row(static_cast<Eigen::Index>(r)).dot(as_eigen(part.row(r)));
    }
  }
  return own;
}

/// A direction of all spaces side by side, and how far they agree on it.
struct Direction {
  std::size_t pair;  ///< its eigenpair
  double agreement;
};

/// 0 where the spaces are independent or contradict each other, about 1 where all say the same and say it strongly:
/// shrinkage leaves directions of little variance less than 1, and strong ones a little more. So that the latter do not
/// pass for agreement, some of the variance has to be shared. One space always agrees with itself.
double agreement_on(double variance, double own_variance, std::size_t spaces) {
  if (spaces == 1) return 1;
  constexpr double kRounding = 1e-9;
  const double shared = variance - own_variance;
  const double above = (variance - 1) / static_cast<double>(spaces - 1);
  return std::min(shared, above) > kRounding ? above : 0;
}

/// By falling variance, but those that the spaces do not agree on come last.
std::vector<Direction> directions_of(const Eigenpairs& pairs, std::size_t count, const Matrix64& covariance,
                                     std::span<const Columns> columns) {
  const std::vector<double> own = own_variances(pairs.vectors, covariance, columns);
  std::vector<Direction> all;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t pair = pairs.values.size() - 1 - i;
    all.push_back({pair, agreement_on(pairs.values[pair], own[pair], columns.size())});
  }
  std::ranges::stable_partition(all, [](const Direction& one) { return one.agreement > 0; });
  return all;
}

/// Eigenpairs that have variance, and no more than centred rows have directions.
std::size_t directions(std::span<const double> ascending, std::size_t rows, std::size_t dim) {
  const double rounding = ascending.back() * static_cast<double>(dim) * std::numeric_limits<double>::epsilon();
  const auto varying =
      static_cast<std::size_t>(std::ranges::count_if(ascending, [&](double value) { return value > rounding; }));
  return std::min(varying, std::max<std::size_t>(rows - 1, 1));
}

/// The directions the spaces agree on, one by row, weighted and scaled to unit variance.
EigenRows<double> weighted_directions(const Eigenpairs& pairs, std::span<const Direction> agreed, double power) {
  EigenRows<double> directions(static_cast<Eigen::Index>(agreed.size()),
                               static_cast<Eigen::Index>(pairs.vectors.cols()));
  for (std::size_t a = 0; a < agreed.size(); ++a) {
    const std::size_t from = agreed[a].pair;
    const double scale = std::pow(agreed[a].agreement, power) / std::sqrt(pairs.values[from]);
    directions.row(static_cast<Eigen::Index>(a)) = scale * as_eigen(pairs.vectors.row(from));
  }
  return directions;
}

/// The scores of the support rows, summed over the spaces.
EigenRows<double> scores_of(const ConsensusTask& task, std::span<const Columns> columns, EigenRows<double> directions) {
  const auto width = static_cast<std::size_t>(directions.cols());
  const MatrixView<double> all{directions.data(), static_cast<std::size_t>(directions.rows()), width, width};
  EigenRows<double> scores =
      EigenRows<double>::Zero(static_cast<Eigen::Index>(task.supports.front().rows()), directions.rows());
  for (std::size_t i = 0; i < task.supports.size(); ++i) {
    const auto folded = all.middle_cols(columns[i].first, columns[i].dim);
    task.bases[i].fold_rows(folded);
    EigenRows<double> centred = as_eigen(task.supports[i].view());
    centred.rowwise() -= as_eigen(std::span(task.bases[i].mean()));
    add_product(scores, centred, as_eigen(folded).transpose());
  }
  return scores;
}

/// LAPACK's choice of signs may differ between machines: the largest score of each direction is made positive.
void fix_signs(EigenRows<double>& scores) {
  Eigen::ArrayXXd least = scores.row(0);
  Eigen::ArrayXXd most = scores.row(0);
  for (Eigen::Index r = 1; r < scores.rows(); ++r) {
    least = least.min(scores.row(r).array());
    most = most.max(scores.row(r).array());
  }
  const Eigen::ArrayXXd signs = (-least > most).select(-Eigen::ArrayXXd::Ones(1, scores.cols()), 1.0);
  for (Eigen::Index r = 0; r < scores.rows(); ++r) scores.row(r).array() *= signs;
}

}  // namespace

Matrix64 whitened_covariance(Moments joint, std::span<const WhiteningBasis> bases) {
  Matrix64 covariance = std::move(joint).covariance();
  std::size_t first = 0;
  for (std::size_t i = 0; i < bases.size(); first += bases[i].dim(), ++i) {
    // From a space's own block to the last column, the rows of the space are one matrix.
    const auto rows =
        covariance.view().middle_rows(first, bases[i].dim()).middle_cols(first, covariance.cols() - first);
    bases[i].whiten_columns(rows);
    std::size_t column = 0;
    for (std::size_t j = i; j < bases.size(); column += bases[j].dim(), ++j) {
      bases[j].whiten_rows(rows.middle_cols(column, bases[j].dim()));
    }
  }
  return covariance;
}

Consensus find_consensus(const ConsensusTask& task, Moments joint, const ConsensusOptions& options, Device device) {
  if (task.bases.empty()) {
    const std::vector<WhiteningBasis> bases(task.whitenings.begin(), task.whitenings.end());
    return find_consensus({{}, task.supports, task.anchors, bases}, std::move(joint), options, device);
  }
  if (!(options.power >= 0) || std::isinf(options.power)) {
    throw Error(Code::bad_argument, fmt::format("power is {}, expected a number of 0 or more", options.power));
  }
  const std::vector<Columns> columns = columns_of(task.supports);
  const std::size_t dim = joint.dim();
  const std::size_t rows = joint.rows();
  const Matrix64 covariance = whitened_covariance(std::move(joint), task.bases);
  Eigenpairs pairs = eigh_largest(covariance, task.anchors, device);
  std::size_t anchors = directions(pairs.values, rows, dim);
  std::vector<Direction> found = directions_of(pairs, anchors, covariance, columns);
  if (found.back().agreement == 0 && pairs.values[found.back().pair] > 1 && anchors < dim) {
    // Directions that are just strong took the places of weaker ones that are shared.
    pairs = eigh_largest(covariance, dim, device);
    found = directions_of(pairs, directions(pairs.values, rows, dim), covariance, columns);
    found.resize(anchors);
  }
  Consensus result{Matrix(task.supports.front().rows(), anchors), {}, 0};
  for (const Direction& one : found) {
    result.eigenvalues.push_back(pairs.values[one.pair]);
    if (one.agreement > 0) ++result.agreed;
  }
  if (result.agreed == 0) {
    throw Error(Code::bad_argument,
                "the spaces agree on no direction at all; are their rows the same inputs in the same order? If so, "
                "lower the shrinkage");
  }
  EigenRows<double> scores =
      scores_of(task, columns, weighted_directions(pairs, std::span(found).first(result.agreed), options.power));
  fix_signs(scores);
  as_eigen(result.targets.view()).leftCols(scores.cols()) = scores.cast<float>();
  if (!as_eigen(result.targets.view()).allFinite()) {
    throw Error(Code::bad_argument,
                fmt::format("power is {}, which makes the targets too large for float32; lower it", options.power));
  }
  return result;
}

std::size_t agreed_anchors(const Matrix& targets) {
  std::size_t used = targets.cols();
  while (used > 1 && as_eigen(targets.view()).col(static_cast<Eigen::Index>(used) - 1).isZero(0)) --used;
  return used;
}

}  // namespace kedge
