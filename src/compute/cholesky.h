// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

namespace kedge {

/// The Cholesky decomposition of a symmetric matrix, by LAPACK.
class Cholesky {
 public:
  explicit Cholesky(Matrix64 symmetric);

  /// Whether the matrix is positive definite; if it is not, nothing below may be called.
  [[nodiscard]] bool exists() const { return exists_; }
  /// R of R R^T in its lower triangle, by columns as LAPACK has it; what is above means nothing.
  [[nodiscard]] const Matrix64& factor() const { return factor_; }
  /// About the reciprocal of the matrix's condition number.
  [[nodiscard]] double reciprocal_condition() const;
  /// Every row of x becomes the solution for that row.
  void solve(MatrixView<double> x) const;
  /// Every row of x becomes one of another basis, in which the matrix is the identity.
  void whiten(MatrixView<double> x) const;
  /// The same for every column of x.
  void whiten_columns(MatrixView<double> x) const;
  /// Every row of x becomes one whose product with any row is that of x with the row whitened.
  void fold(MatrixView<double> x) const;
  /// The same for every column of x.
  void fold_columns(MatrixView<double> x) const;

 private:
  void divide_rows(bool transposed, MatrixView<double> x) const;
  void divide_columns(bool transposed, MatrixView<double> x) const;

  Matrix64 factor_;
  double norm_ = 0;
  bool exists_ = false;
};

}  // namespace kedge
