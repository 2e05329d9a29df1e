// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

namespace kedge {

/// The Cholesky decomposition A = R R^T of a symmetric matrix, by LAPACK.
class Cholesky {
 public:
  explicit Cholesky(Matrix64 symmetric);

  /// Whether A is positive definite; if it is not, nothing below may be called.
  [[nodiscard]] bool exists() const { return exists_; }
  /// R in the lower triangle, by columns as LAPACK has it; what is above means nothing.
  [[nodiscard]] const Matrix64& factor() const { return factor_; }
  /// About the reciprocal of A's condition number.
  [[nodiscard]] double reciprocal_condition() const;
  /// Whether A is far from where float64 would call it singular.
  [[nodiscard]] bool is_comfortable() const { return exists() && reciprocal_condition() > kComfortable; }
  static constexpr double kComfortable = 1e-10;  ///< reciprocal condition
  /// x = x A^-1
  void solve(MatrixView<double> x) const;
  enum class Side { plain, adjoint };
  /// x = x R^-T, which makes x x^T what x A^-1 x^T was; adjoint: x = x R^-1.
  void divide_rows(MatrixView<double> x, Side side = Side::plain) const;
  /// x = R^-1 x; adjoint: x = R^-T x.
  void divide_columns(MatrixView<double> x, Side side = Side::plain) const;

 private:
  Matrix64 factor_;
  double norm_ = 0;
  bool exists_ = false;
};

}  // namespace kedge
