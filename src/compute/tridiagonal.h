// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <mutex>
#include <vector>

namespace kedge {

/// A symmetric matrix A = Q T Q^T with T tridiagonal: half of an eigendecomposition, and all that is needed to solve
/// with A + k I for any k. Safe to use from several threads.
class Tridiagonal {
 public:
  /// Only the upper triangle is read.
  explicit Tridiagonal(Matrix64 symmetric);

  [[nodiscard]] std::size_t dim() const { return diagonal_.size(); }
  /// All eigenvalues, ascending.
  [[nodiscard]] std::vector<double> eigenvalues() const;
  /// x = Q x, for the columns of x.
  void to_outside(MatrixView<double> x) const;
  /// The same for the rows of x, which is how eigenvectors come.
  void to_outside_by_row(MatrixView<double> x) const;
  /// x = Q^T x, for the columns of x.
  void to_inside(MatrixView<double> x) const;
  /// y = (T + k I)^-1 x, for the columns of x; y may be x. k must be positive, or T well away from singular.
  void solve(double k, MatrixView<const double> x, MatrixView<double> y) const;

  [[nodiscard]] const std::vector<double>& diagonal() const { return diagonal_; }
  [[nodiscard]] const std::vector<double>& off_diagonal() const { return off_diagonal_; }

 private:
  void multiply(char side, char trans, MatrixView<double> x) const;

  mutable std::mutex lock_;  // dormtr overwrites some of the reflectors while it works, and restores them
  Matrix64 reflectors_;
  std::vector<double> scales_, diagonal_, off_diagonal_;
};

}  // namespace kedge
