// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/eigen.h"
#include "regress/kernel_ridge.h"
#include "support.h"

#include <Eigen/Eigenvalues>
#include <Eigen/LU>

#include <cmath>

namespace kedge::test {

using Rows = EigenRows<double>;

inline Rows as_rows(const Matrix& matrix) {
  return as_eigen(matrix.view()).cast<double>();
}

inline MatrixView<const double> view_of(const Rows& rows) {
  const auto cols = static_cast<std::size_t>(rows.cols());
  return {rows.data(), static_cast<std::size_t>(rows.rows()), cols, cols};
}

/// Support rows and targets that no line reaches.
struct Problem {
  Problem(std::size_t count, std::size_t dim, std::size_t outputs, unsigned seed = 1, double noise = 0.1)
      : Problem(random_matrix(count, dim, seed), Rows()) {
    const Rows slopes = as_rows(random_matrix(dim, outputs, seed + 1));
    targets = (support * slopes).array().tanh();
    targets += noise * as_rows(random_matrix(count, outputs, seed + 2));
  }
  Problem(Matrix rows, Rows wanted)
      : stored(std::move(rows)),
        support(as_rows(stored)),
        targets(std::move(wanted)),
        coordinates(make_whitening(compute_moments(space_of("x", many(stored))), {})) {}

  /// The statistics of a space are seldom those of its support; one row has none.
  static Matrix many(const Matrix& rows) { return rows.rows() > 1 ? rows : random_matrix(50, rows.cols(), 9); }

  [[nodiscard]] KernelTask task() const { return {view_of(support), coordinates, view_of(targets)}; }
  [[nodiscard]] KernelRegression regress(const KernelOptions& options = {}) const {
    return regress_kernel(task(), options);
  }

  Matrix stored;
  Rows support, targets;
  Whitening coordinates;
};

constexpr KernelOptions by_hand(double width, double strength, double whitening) {
  return {width, strength, whitening};
}

/// f of the rows, from the definition.
inline Rows features(const Problem& problem, double whitening) {
  const Rows covariance = as_eigen(problem.coordinates.covariance.view());
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver{Eigen::MatrixXd(covariance)};
  const Eigen::VectorXd scale = solver.eigenvalues().array().pow(-whitening / 2);
  const Rows power = solver.eigenvectors() * scale.asDiagonal() * solver.eigenvectors().transpose();
  Rows result = (problem.support.rowwise() - as_eigen(std::span(problem.coordinates.mean))) * power;
  for (Eigen::Index r = 0; r < result.rows(); ++r) {
    if (result.row(r).norm() > 0) result.row(r) /= result.row(r).norm();
  }
  return result;
}

/// k of every row of x with every row of s.
inline Rows kernel_matrix(const Rows& x, const Rows& s, double width) {
  return (width * ((x * s.transpose()).array() - 1)).exp();
}

/// The regression from its definition, with an explicit inverse: values at x of what is learned from s and y.
struct Plain {
  Plain(const Rows& s, const Rows& y, double width, double ridge) : rows(s), g(width), mean(y.colwise().mean()) {
    solve(y, ridge);
  }
  Plain(const Rows& s, const Rows& y, double width, double ridge, Eigen::RowVectorXd around)
      : rows(s), g(width), mean(std::move(around)) {
    solve(y, ridge);
  }
  void solve(const Rows& y, double ridge) {
    Rows system = kernel_matrix(rows, rows, g);
    system.diagonal().array() += ridge;
    coefficients = system.inverse() * (y.rowwise() - mean);
  }
  [[nodiscard]] Rows at(const Rows& x) const { return (kernel_matrix(x, rows, g) * coefficients).rowwise() + mean; }
  Rows rows;
  double g;
  Eigen::RowVectorXd mean;
  Rows coefficients;
};

/// The regression's own formula at features f.
inline Rows values_at(const KernelRegression& regression, const Rows& f) {
  const Rows u = regression.kernel.width * f * as_rows(regression.kernel.rows).transpose();
  const Rows curve = u.array().exp() - 1 - u.array();
  Rows result = f * as_eigen(regression.weight.view()).transpose() + curve * as_rows(regression.kernel.coefficients);
  result.rowwise() += as_eigen(std::span(regression.bias));
  return result;
}

inline void expect_near(const Rows& found, const Rows& wanted, double share) {
  ASSERT_EQ(found.rows(), wanted.rows());
  ASSERT_EQ(found.cols(), wanted.cols());
  EXPECT_LT((found - wanted).cwiseAbs().maxCoeff(), share * (wanted.cwiseAbs().maxCoeff() + 1e-300));
}

/// The errors of really leaving out row after row and solving again.
inline Rows left_out(const Rows& s, const Rows& y, double width, double ridge) {
  const Eigen::RowVectorXd mean = y.colwise().mean();
  Rows errors(y.rows(), y.cols());
  for (Eigen::Index out = 0; out < y.rows(); ++out) {
    Rows rest(s.rows() - 1, s.cols()), known(y.rows() - 1, y.cols());
    for (Eigen::Index r = 0; r < rest.rows(); ++r) {
      rest.row(r) = s.row(r < out ? r : r + 1);
      known.row(r) = y.row(r < out ? r : r + 1);
    }
    errors.row(out) = y.row(out) - Plain(rest, known, width, ridge, mean).at(s.row(out));
  }
  return errors;
}

inline bool all_finite(const KernelRegression& r) {
  const auto finite = [](const Matrix& matrix) { return as_eigen(matrix.view()).allFinite(); };
  return finite(r.kernel.whitener) && finite(r.kernel.rows) && finite(r.kernel.coefficients) &&
         as_eigen(r.weight.view()).allFinite() && as_eigen(std::span(r.bias)).allFinite() &&
         std::isfinite(r.fit.error) && std::isfinite(r.fit.mean_r2) && r.fit.error >= 0;
}

}  // namespace kedge::test
