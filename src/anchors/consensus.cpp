// SPDX-License-Identifier: Apache-2.0
#include "anchors/consensus.h"

#include "base/eigen.h"
#include "base/wording.h"
#include "compute/products.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kedge {
namespace {

/// A direction of all spaces side by side, and how far they agree on it.
struct Direction {
  std::size_t pair;  ///< its eigenpair
  double agreement;
};

/// 0 if the spaces are independent or contradict each other, about 1 if all agree on a strong direction. Shrinkage
/// leaves strong directions a little more variance than 1; so that this does not pass for agreement, some of the
/// variance has to be shared. One space always agrees with itself.
double agreement_on(double variance, double own_variance, std::size_t spaces) {
  if (spaces == 1) return 1;
  constexpr double kRounding = 1e-9;
  const double shared = variance - own_variance;
  const double above = (variance - 1) / static_cast<double>(spaces - 1);
  return std::min(shared, above) > kRounding ? above : 0;
}

/// By falling variance, those that the spaces do not agree on last.
std::vector<Direction> directions_of(const Directions& found, std::size_t count, std::size_t spaces) {
  const std::vector<double>& variances = found.pairs.values;
  std::vector<Direction> all;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t pair = variances.size() - 1 - i;
    all.push_back({pair, agreement_on(variances[pair], found.own_variances[pair], spaces)});
  }
  std::ranges::stable_partition(all, [](const Direction& one) { return one.agreement > 0; });
  return all;
}

/// How many eigenpairs have variance; centred rows span rows - 1 directions at most.
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

/// Rows less the mean, and zeros for those that are wrong.
EigenRows<double> right_rows(const ConsensusTask& task, std::size_t space) {
  const Matrix64& support = task.support[space];
  EigenRows<double> rows = as_eigen(support.view()).rowwise() - as_eigen(std::span(task.bases[space].mean()));
  for (std::size_t r = 0; r < support.rows(); ++r) {
    if (!task.right[space][r]) rows.row(static_cast<Eigen::Index>(r)).setZero();
  }
  return rows;
}

/// What spaces share, from support rows that are right in both. What varies within a space needs no partner.
void replace_shared(Matrix64& scatter, const ConsensusTask& task, double rows) {
  std::vector<EigenRows<double>> right;
  for (std::size_t i = 0; i < task.bases.size(); ++i) right.push_back(right_rows(task, i));
  for (std::size_t b = 1, to = 0; b < right.size(); ++b) {
    to += task.bases[b - 1].dim();
    for (std::size_t a = 0, from = 0; a < b; from += task.bases[a++].dim()) {
      double both = 0;
      for (std::size_t r = 0; r < task.right[a].size(); ++r) both += task.right[a][r] && task.right[b][r] ? 1 : 0;
      const auto block = scatter.view().middle_rows(to, task.bases[b].dim()).middle_cols(from, task.bases[a].dim());
      set_product(block, right[b].transpose(), right[a], both > 0 ? rows / both : 0);
    }
  }
}

/// Leaves the scores of a row as if all spaces had it.
void make_up_for_wrong(EigenRows<double>& scores, const ConsensusTask& task) {
  for (Eigen::Index r = 0; r < scores.rows(); ++r) {
    const auto there = static_cast<double>(std::ranges::count_if(
        task.right, [&](const std::vector<bool>& right) { return right[static_cast<std::size_t>(r)]; }));
    scores.row(r) *= static_cast<double>(task.right.size()) / there;
  }
}

/// The scores of the support rows, summed over the spaces.
EigenRows<double> scores_of(const ConsensusTask& task, EigenRows<double> directions) {
  const MatrixView<double> all = view_of(directions);
  EigenRows<double> scores =
      EigenRows<double>::Zero(static_cast<Eigen::Index>(task.rows.front()->rows()), directions.rows());
  std::size_t first = 0;
  for (std::size_t i = 0; i < task.rows.size(); first += task.bases[i].dim(), ++i) {
    const auto folded = all.middle_cols(first, task.bases[i].dim());
    task.bases[i].whitener()->adjoint_to_rows(folded);
    if (task.right.empty()) {
      scores += as_eigen(task.rows[i]->times(folded).view());
    } else {
      add_product(scores, right_rows(task, i), EigenRows<double>(as_eigen(folded)).transpose());
    }
  }
  if (!task.right.empty()) make_up_for_wrong(scores, task);
  return scores;
}

/// LAPACK's choice of signs differs between machines, so that the largest score of each direction is made positive.
void fix_signs(EigenRows<double>& scores) {
  Eigen::RowVectorXd least = scores.row(0), most = least;
  for (Eigen::Index r = 1; r < scores.rows(); ++r) {  // by rows, as they lie in memory
    least = least.cwiseMin(scores.row(r));
    most = most.cwiseMax(scores.row(r));
  }
  const Eigen::RowVectorXd signs = (-least.array() > most.array()).select(-Eigen::ArrayXXd::Ones(1, least.size()), 1.0);
  scores.array().rowwise() *= signs.array();
}

}  // namespace

ConsensusResult find_consensus(const ConsensusTask& task, Moments joint, const Consensus& options, Device device) {
  if (!(options.power >= 0) || std::isinf(options.power)) {
    refuse("power is {}, expected a number of 0 or more", options.power);
  }
  std::vector<std::shared_ptr<const ChangeOfBasis>> bases;
  std::vector<std::size_t> dims;
  for (const WhiteningBasis& basis : task.bases) {
    bases.push_back(basis.whitener());
    dims.push_back(basis.dim());
  }
  const std::size_t dim = joint.dim();
  const std::size_t rows = joint.rows();
  Matrix64 scatter = std::move(joint).scatter();
  if (!task.right.empty()) replace_shared(scatter, task, static_cast<double>(rows));
  const auto covariance = make_block_covariance(std::move(scatter), static_cast<double>(rows), bases, dims, device);
  Directions leading = covariance->leading(task.anchors);
  std::size_t anchors = directions(leading.pairs.values, rows, dim);
  std::vector<Direction> found = directions_of(leading, anchors, dims.size());
  if (found.back().agreement == 0 && leading.pairs.values[found.back().pair] > 1 && anchors < dim) {
    // Strong directions that are not shared took the places of weaker ones that are.
    leading = covariance->leading(dim);
    found = directions_of(leading, directions(leading.pairs.values, rows, dim), dims.size());
    found.resize(anchors);
  }
  std::erase_if(found, [](const Direction& one) { return one.agreement == 0; });
  if (found.empty()) {
    refuse(
        "the spaces agree on no direction at all; are their rows the same inputs in the same order? If so, lower the "
        "shrinkage");
  }
  EigenRows<double> scores = scores_of(task, weighted_directions(leading.pairs, found, options.power));
  fix_signs(scores);
  ConsensusResult result{matrix_of<float>(scores), {}};
  for (const Direction& one : found) result.eigenvalues.push_back(leading.pairs.values[one.pair]);
  if (!as_eigen(result.targets.view()).allFinite()) {
    refuse("power is {}, which makes the targets too large for float32; lower it", options.power);
  }
  return result;
}

std::size_t agreed_anchors(const Matrix& targets) {
  std::size_t used = targets.cols();
  while (used > 1 && as_eigen(targets.view()).col(static_cast<Eigen::Index>(used) - 1).isZero(0)) --used;
  return used;
}

}  // namespace kedge
