// SPDX-License-Identifier: Apache-2.0
#include "regress/ridge.h"

#include "compute/products.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace kedge {
namespace {

// Targets are float32, and products of the same rows may be rounded in another order.
constexpr double kTargetRounding = 1e-5;

/// Among rows that ascend in their first target, the one with the targets of `row`; `row` itself if there is none.
std::size_t one_like(std::size_t row, std::span<const std::size_t> ascending, MatrixView<const double> targets,
                     double most) {
  const auto own = as_eigen(targets.row(row));
  for (std::size_t i = ascending.size(); i-- > 0;) {
    const auto other = as_eigen(targets.row(ascending[i]));
    if (own[0] - other[0] > most) break;
    if ((own - other).norm() <= most) return ascending[i];
  }
  return row;
}

Matrix64 gram_of(MatrixView<const double> features) {
  Matrix64 gram(features.cols, features.cols);
  add_gram(gram.view(), Triangle::upper, features, 1 / static_cast<double>(features.rows));
  return gram;
}

Matrix64 cross_of(MatrixView<const double> features, MatrixView<const double> targets) {
  Matrix64 cross(features.cols, targets.cols);
  set_product(cross.view(), as_eigen(features).transpose(), targets, 1 / static_cast<double>(features.rows));
  return cross;
}

}  // namespace

RepeatedRows::RepeatedRows(MatrixView<const double> rows) : rows_(rows.rows) {
  std::vector<std::size_t> order(rows.rows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto before = [&](std::size_t a, std::size_t b) {
    return std::ranges::lexicographical_compare(rows.row(a), rows.row(b));
  };
  std::ranges::stable_sort(order, before);
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end = std::find_if(begin, order.end(), [&](std::size_t row) { return before(*begin, row); });
    if (end - begin > 1) alike_.emplace_back(begin, end);
    begin = end;
  }
}

std::vector<std::size_t> RepeatedRows::stand_ins(MatrixView<const double> targets) const {
  std::vector<std::size_t> result(rows_);
  std::iota(result.begin(), result.end(), std::size_t{0});
  if (alike_.empty()) return result;
  const double most = kTargetRounding * std::sqrt(as_eigen(targets).squaredNorm() / static_cast<double>(rows_));
  for (std::vector<std::size_t> group : alike_) {
    std::ranges::stable_sort(group, {}, [&](std::size_t row) { return targets.row(row)[0]; });
    std::vector<std::size_t> ascending;
    for (const std::size_t row : group) {
      result[row] = one_like(row, ascending, targets, most);
      if (result[row] == row) ascending.push_back(row);
    }
  }
  return result;
}

std::size_t RepeatedRows::distinct(MatrixView<const double> targets) const {
  std::size_t count = 0, row = 0;
  for (const std::size_t stand_in : stand_ins(targets)) count += stand_in == row++ ? 1 : 0;
  return count;
}

double taken_by_centring(std::span<const double> means, std::span<const double> mean_squares) {
  constexpr double kRounding = 1e-10;
  return as_eigen(means).squaredNorm() <= kRounding * as_eigen(mean_squares).sum() ? 1 : 0;
}

std::shared_ptr<const RidgeBasis> make_ridge_basis(std::shared_ptr<const DecomposedGram> gram, std::size_t rows,
                                                   double noise, double means) {
  std::vector<double> values = gram->eigenvalues();
  for (double& value : values) value = std::max(value, 0.0);  // rounding may leave a tiny negative
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  const double rounding = values.back() * static_cast<double>(values.size()) * std::numeric_limits<double>::epsilon();
  return std::make_shared<RidgeBasis>(
      RidgeBasis{rows, std::move(gram), std::move(values), mean, std::max(noise, rounding), means});
}

Spread spread_of(MatrixView<const double> targets) {
  const double share = 1 / static_cast<double>(targets.rows);
  const Eigen::RowVectorXd means = column_means(targets);
  Spread spread{std::vector<double>(targets.cols), std::vector<double>(targets.cols)};
  auto squares = as_eigen(std::span(spread.squares));
  for (std::size_t r = 0; r < targets.rows; ++r) squares += share * as_eigen(targets.row(r)).cwiseAbs2();
  as_eigen(std::span(spread.variances)) = (squares - means.cwiseAbs2()).cwiseMax(0.0);
  return spread;
}

Ridge::Ridge(std::shared_ptr<const RidgeBasis> basis, const Matrix64& cross, Spread targets,
             std::optional<std::size_t> distinct)
    : basis_(std::move(basis)),
      projected_(cross),
      targets_(std::move(targets)),
      distinct_(distinct.value_or(basis_->rows)) {
  basis_->gram->to_inside(projected_.view());
}

Ridge::Ridge(MatrixView<const double> features, MatrixView<const double> targets, double means)
    : Ridge(make_ridge_basis(decompose_gram(gram_of(features)), features.rows, 0, means), cross_of(features, targets),
            spread_of(targets), RepeatedRows(features).distinct(targets)) {}

/// What is added to the eigenvalues; never so little that noise in a direction without features would count.
double Ridge::penalty(double rho) const {
  return std::max({rho * basis_->mean_value, basis_->noise, std::numeric_limits<double>::min()});
}

/// For each output, the mean squared residual over (1 - degrees of freedom / distinct rows)^2. Equal rows have the same
/// residual e; if all c of them are left out it is e / (1 - c h), where h is the leverage of one. The c h of all
/// distinct rows sum to the degrees of freedom, and their mean stands for each. With y = (T + k I)^-1 t, the fit
/// explains t.y + k y.y of an output.
std::vector<double> Ridge::errors(double rho) const {
  const double k = penalty(rho);
  Matrix64 solved(projected_.rows(), projected_.cols());
  basis_->gram->solve(k, projected_.view(), solved.view());
  const auto t = as_eigen(projected_.view()).array();
  const auto y = as_eigen(solved.view()).array();
  Eigen::RowVectorXd explained = Eigen::RowVectorXd::Zero(t.cols());
  for (Eigen::Index r = 0; r < t.rows(); ++r) explained.array() += y.row(r) * (t.row(r) + k * y.row(r));

  double freedom = basis_->means;
  for (const double value : basis_->values) freedom += value / (value + k);
  const double left = 1 - freedom / static_cast<double>(distinct_);
  std::vector<double> result(targets_.squares.size(), std::numeric_limits<double>::infinity());
  if (!(left > 1e-9)) return result;  // nothing is left to judge by
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double error = targets_.squares[i] - explained[static_cast<Eigen::Index>(i)];
    if (!std::isnan(error)) result[i] = std::max(0.0, error) / (left * left);
  }
  return result;
}

double Ridge::gcv(double rho) const {
  const std::vector<double> all = errors(rho);
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

double Ridge::best(std::span<const double> strengths) const {
  return *std::ranges::min_element(strengths, {}, [this](double rho) { return gcv(rho); });
}

Matrix64 Ridge::solve(double rho) const {
  Matrix64 solution = projected_;
  basis_->gram->solve(penalty(rho), projected_.view(), solution.view());
  basis_->gram->to_outside(solution.view());
  return solution;
}

std::vector<float> Ridge::r2(double rho) const {
  const std::vector<double> all = errors(rho);
  std::vector<float> result(all.size());
  for (std::size_t c = 0; c < all.size(); ++c) {
    const double share = targets_.variances[c] > 0 ? 1 - all[c] / targets_.variances[c] : 0;
    result[c] = static_cast<float>(std::max(share, -1.0));
  }
  return result;
}

double Ridge::mean_r2(double rho) const {
  const std::vector<float> all = r2(rho);
  double sum = 0;
  std::size_t varying = 0;
  for (std::size_t c = 0; c < all.size(); ++c) {
    if (targets_.variances[c] == 0) continue;
    sum += all[c];
    ++varying;
  }
  return varying == 0 ? 0 : sum / static_cast<double>(varying);
}

}  // namespace kedge
