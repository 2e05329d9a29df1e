// SPDX-License-Identifier: Apache-2.0
// Decompositions of float64 matrices by LAPACK.
#pragma once

#include <kedge/device.h>
#include <kedge/matrix.h>

#include <mutex>

namespace kedge {

/// LAPACKE reports its own lack of memory by a status; this makes it std::bad_alloc.
void require_lapack_memory(int status);

/// Eigenvalues in ascending order; row i of `vectors` is the unit eigenvector of values[i].
struct Eigenpairs {
  std::vector<double> values;
  Matrix64 vectors;
};

/// Whether matrices of this size are decomposed on a GPU. LAPACK is done with small ones before a GPU has started.
[[nodiscard]] bool on_gpu(std::size_t dim, Device device);

/// All eigenpairs of a symmetric matrix, by divide and conquer. Only its upper triangle is read.
[[nodiscard]] Eigenpairs eigh(Matrix64 symmetric, Device device = Device::cpu);
/// The same, and the inverse square root of the matrix, which means nothing unless all values are positive.
[[nodiscard]] Eigenpairs eigh_with_root(Matrix64 symmetric, Matrix64& inverse_root, Device device = Device::cpu);
/// The `count` largest eigenpairs of a positive semidefinite matrix, ascending. A few take much less time than all.
[[nodiscard]] Eigenpairs eigh_largest(Matrix64 symmetric, std::size_t count);
/// Only the eigenvalues, in ascending order.
[[nodiscard]] std::vector<double> eigenvalues(Matrix64 symmetric);

/// a = left^T diag(values) right: row i of `left` and of `right` belong to values[i], the largest first.
struct SingularTriples {
  std::vector<double> values;
  Matrix64 left, right;
};
/// All min(rows, cols) of them, by divide and conquer.
[[nodiscard]] SingularTriples svd(Matrix64 a);

/// The Cholesky decomposition A = R R^T of a symmetric matrix.
class Cholesky {
 public:
  explicit Cholesky(Matrix64 symmetric);

  /// Whether A is positive definite. If it is not, nothing below may be called.
  [[nodiscard]] bool exists() const { return exists_; }
  /// R in the lower triangle, by columns as LAPACK has it; the values above it are meaningless.
  [[nodiscard]] const Matrix64& factor() const { return factor_; }
  /// About the reciprocal of A's condition number.
  [[nodiscard]] double reciprocal_condition() const;
  /// Whether A is far from singular in float64.
  [[nodiscard]] bool is_comfortable() const { return exists() && reciprocal_condition() > kComfortable; }
  static constexpr double kComfortable = 1e-10;  ///< reciprocal condition
  /// x = x A^-1
  void solve(MatrixView<double> x) const;
  enum class Side { plain, adjoint };
  /// x = x R^-T, so that x x^T becomes x A^-1 x^T; adjoint: x = x R^-1.
  void divide_rows(MatrixView<double> x, Side side = Side::plain) const;
  /// x = R^-1 x; adjoint: x = R^-T x.
  void divide_columns(MatrixView<double> x, Side side = Side::plain) const;

 private:
  Matrix64 factor_;
  double norm_ = 0;
  bool exists_ = false;
};

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
  void to_outside(MatrixView<double> x) const { multiply('R', 'T', x); }
  /// The same for the rows of x: eigenvectors are rows.
  void to_outside_by_row(MatrixView<double> x) const { multiply('L', 'N', x); }
  /// x = Q^T x, for the columns of x.
  void to_inside(MatrixView<double> x) const { multiply('R', 'N', x); }
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
