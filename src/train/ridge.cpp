// SPDX-License-Identifier: Apache-2.0
#include "train/ridge.h"

#include "backend/eigh.h"
#include "base/eigen.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace kedge {

Ridge::Ridge(MatrixView<const double> features, MatrixView<const double> targets)
    : rows_(features.rows), projected_(features.cols, targets.cols) {
  const auto x = as_eigen(features);
  const auto y = as_eigen(targets);
  const double share = 1 / static_cast<double>(rows_);
  Matrix64 gram(features.cols, features.cols);
  as_eigen(gram.view()).selfadjointView<Eigen::Lower>().rankUpdate(x.transpose(), share);
  as_eigen(gram.view()).triangularView<Eigen::StrictlyUpper>() = as_eigen(gram.view()).transpose();
  Eigenpairs pairs = eigh(std::move(gram));
  for (double& value : pairs.values) value = std::max(value, 0.0);  // rounding may leave a tiny negative
  values_ = std::move(pairs.values);
  vectors_ = std::move(pairs.vectors);
  mean_value_ = std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(values_.size());

  const EigenRows<double> products = share * (x.transpose() * y);
  as_eigen(projected_.view()).noalias() = as_eigen(vectors_.view()) * products;
  const Eigen::RowVectorXd means = column_means(y);
  Eigen::RowVectorXd squares = Eigen::RowVectorXd::Zero(y.cols());
  for (Eigen::Index r = 0; r < y.rows(); ++r) squares += share * y.row(r).cwiseAbs2();
  for (Eigen::Index c = 0; c < y.cols(); ++c) {
    squares_.push_back(squares[c]);
    variances_.push_back(std::max(0.0, squares[c] - means[c] * means[c]));
  }
}

/// Of each output: the mean squared residual over (1 - degrees of freedom / rows)^2. In the eigenbasis the residual is
/// a sum over eigenvalues, so no strength needs another product.
std::vector<double> Ridge::errors(double rho) const {
  const double penalty = rho * mean_value_;
  double freedom = 0;
  Eigen::RowVectorXd explained = Eigen::RowVectorXd::Zero(static_cast<Eigen::Index>(squares_.size()));
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const double sum = values_[i] + penalty;
    if (!(sum > 0)) continue;
    freedom += values_[i] / sum;
    const double gain = 2 / sum - values_[i] / (sum * sum);
    explained += gain * as_eigen(std::span(projected_.row(i))).array().square().matrix();
  }
  const double left = 1 - freedom / static_cast<double>(rows_);
  std::vector<double> result(squares_.size(), std::numeric_limits<double>::infinity());
  if (!(left > 1e-9)) return result;  // nothing is left to judge by
  for (std::size_t c = 0; c < result.size(); ++c) {
    result[c] = std::max(0.0, squares_[c] - explained[static_cast<Eigen::Index>(c)]) / (left * left);
  }
  return result;
}

double Ridge::gcv(double rho) const {
  const std::vector<double> all = errors(rho);
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

double Ridge::best() const {
  return *std::ranges::min_element(kStrengths, {}, [this](double rho) { return gcv(rho); });
}

Matrix64 Ridge::solve(double rho) const {
  EigenRows<double> scaled = as_eigen(projected_.view());
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const double sum = values_[i] + rho * mean_value_;
    scaled.row(static_cast<Eigen::Index>(i)) *= sum > 0 ? 1 / sum : 0;
  }
  Matrix64 solution(vectors_.cols(), projected_.cols());
  as_eigen(solution.view()).noalias() = as_eigen(vectors_.view()).transpose() * scaled;
  return solution;
}

std::vector<float> Ridge::r2(double rho) const {
  const std::vector<double> all = errors(rho);
  std::vector<float> result(all.size());
  for (std::size_t c = 0; c < all.size(); ++c) {
    const double share = variances_[c] > 0 ? 1 - all[c] / variances_[c] : 0;
    result[c] = static_cast<float>(std::max(share, -1.0));
  }
  return result;
}

double Ridge::mean_r2(double rho) const {
  const std::vector<float> all = r2(rho);
  double sum = 0;
  std::size_t varying = 0;
  for (std::size_t c = 0; c < all.size(); ++c) {
    if (variances_[c] == 0) continue;
    sum += all[c];
    ++varying;
  }
  return varying == 0 ? 0 : sum / static_cast<double>(varying);
}

}  // namespace kedge
