// SPDX-License-Identifier: Apache-2.0
// Second moments of rows: what is computed once and then solved with, on the processor or in a GPU's memory.
#pragma once

#include "compute/lapack.h"

#include <memory>
#include <optional>
#include <utility>

namespace kedge {

/// A square matrix B that vectors are multiplied by: the inverse of a Cholesky factor, or a matrix as it is.
class ChangeOfBasis {
 public:
  explicit ChangeOfBasis(Cholesky factor) : factor_(std::move(factor)) {}
  explicit ChangeOfBasis(Matrix64 matrix) : matrix_(std::move(matrix)) {}

  void apply_to_rows(MatrixView<double> x) const { multiply(x, true, Cholesky::Side::plain); }          ///< x = x B^T
  void apply_to_columns(MatrixView<double> x) const { multiply(x, false, Cholesky::Side::plain); }      ///< x = B x
  void adjoint_to_rows(MatrixView<double> x) const { multiply(x, true, Cholesky::Side::adjoint); }      ///< x = x B
  void adjoint_to_columns(MatrixView<double> x) const { multiply(x, false, Cholesky::Side::adjoint); }  ///< x = B^T x

  /// The factor whose inverse B is; none if there is a matrix().
  [[nodiscard]] const std::optional<Cholesky>& factor() const { return factor_; }
  /// B; empty if there is a factor().
  [[nodiscard]] const Matrix64& matrix() const { return matrix_; }

 private:
  void multiply(MatrixView<double> x, bool rows, Cholesky::Side side) const;

  std::optional<Cholesky> factor_;
  Matrix64 matrix_;
};

/// Products of rows, x^T x / rows, decomposed into a tridiagonal or diagonal T, which is cheap to solve with.
class DecomposedGram {
 public:
  virtual ~DecomposedGram() = default;
  [[nodiscard]] virtual std::size_t dim() const = 0;
  /// Ascending.
  [[nodiscard]] virtual std::vector<double> eigenvalues() const = 0;
  /// Takes rows^T targets, dim x outputs, to the coordinates of T.
  virtual void to_inside(MatrixView<double> cross) const = 0;
  /// y = (T + k I)^-1 x, for the columns of x; y may be x. k must be positive.
  virtual void solve(double k, MatrixView<const double> x, MatrixView<double> y) const = 0;
  /// Takes a solution from the coordinates of T to those of the rows.
  virtual void to_outside(MatrixView<double> solution) const = 0;
};

/// Decomposes a symmetric matrix, in other coordinates if there is a basis; else only its upper triangle is read.
[[nodiscard]] std::shared_ptr<const DecomposedGram> decompose_gram(Matrix64 gram,
                                                                   std::shared_ptr<const ChangeOfBasis> basis = {});

/// Rows less a mean. Safe to read from several threads.
class CentredRows {
 public:
  virtual ~CentredRows() = default;
  [[nodiscard]] virtual std::size_t rows() const = 0;
  [[nodiscard]] virtual std::size_t dim() const = 0;
  /// By column; 0 if the mean that was subtracted is that of these rows.
  [[nodiscard]] virtual std::vector<double> means() const = 0;
  [[nodiscard]] virtual std::vector<double> mean_squares() const = 0;
  /// rows weights^T, for weights of outputs x dim.
  [[nodiscard]] virtual Matrix64 times(MatrixView<const double> weights) const = 0;
  /// rows^T targets / rows, for targets of rows x outputs.
  [[nodiscard]] virtual Matrix64 cross(MatrixView<const double> targets) const = 0;
  /// Decomposes their products, in other coordinates if there is a basis.
  [[nodiscard]] virtual std::shared_ptr<const DecomposedGram> decompose(
      std::shared_ptr<const ChangeOfBasis> basis) const = 0;
};

[[nodiscard]] std::unique_ptr<const CentredRows> centre_rows(const Matrix64& rows, std::span<const double> mean,
                                                             Device device);

/// Directions of several blocks of columns side by side.
struct Directions {
  Eigenpairs pairs;                   ///< ascending
  std::vector<double> own_variances;  ///< the variance along each within the blocks, without what blocks share
};

/// The covariance of several blocks of columns side by side, each in coordinates of its own.
class BlockCovariance {
 public:
  virtual ~BlockCovariance() = default;
  /// The `count` directions of largest variance; all if there are no more.
  [[nodiscard]] virtual Directions leading(std::size_t count) const = 0;
};

/// The lower triangle of `scatter`, divided by `rows`, is the covariance before the coordinates change. Each block has
/// a basis and a number of columns, its dim.
[[nodiscard]] std::unique_ptr<const BlockCovariance> make_block_covariance(
    Matrix64 scatter, double rows, std::span<const std::shared_ptr<const ChangeOfBasis>> bases,
    std::span<const std::size_t> dims, Device device);

/// Adds up rows and their products, in float64 and in a device's own memory: one block while the next is filled.
template <class T>
class RowSums {
 public:
  virtual ~RowSums() = default;
  /// Memory to put rows into, packed: a matrix for each of `widths`. May wait until the device has read what was there.
  [[nodiscard]] virtual std::vector<MatrixView<T>> buffer(std::size_t number, std::size_t rows) = 0;
  /// Call once, before the first rows are added. The pilot is near the rows, so that their products keep their digits.
  virtual void set_pilot(std::span<const double> pilot) = 0;
  /// All rows of a buffer.
  virtual void add(std::size_t number, std::size_t rows) = 0;
  /// The mean of the rows, and the sum of x^T x of the rows less that mean.
  virtual void finish(std::span<double> mean, MatrixView<double> scatter) = 0;
};

/// Rows are several matrices side by side, of these widths. `device` must be off the processor.
template <class T>
[[nodiscard]] std::unique_ptr<RowSums<T>> make_row_sums(std::span<const std::size_t> widths, std::size_t most_rows,
                                                        std::size_t buffers, Device device);

}  // namespace kedge
