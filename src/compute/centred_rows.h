// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/change_of_basis.h"

#include <kedge/device.h>
#include <kedge/matrix.h>

#include <memory>
#include <span>
#include <vector>

namespace kedge {

/// Products of rows, x^T x / rows, decomposed into a tridiagonal or diagonal T. Solving with any penalty then costs no
/// more than reading the right side.
class DecomposedGram {
 public:
  virtual ~DecomposedGram() = default;
  [[nodiscard]] virtual std::size_t dim() const = 0;
  /// Ascending.
  [[nodiscard]] virtual std::vector<double> eigenvalues() const = 0;
  /// rows^T targets, dim x outputs, becomes what it is in the coordinates of T.
  virtual void to_inside(MatrixView<double> cross) const = 0;
  /// y = (T + k I)^-1 x, for the columns of x; y may be x. k must be positive.
  virtual void solve(double k, MatrixView<const double> x, MatrixView<double> y) const = 0;
  /// A solution in the coordinates of T becomes what rows as they were given are multiplied with.
  virtual void to_outside(MatrixView<double> solution) const = 0;
};

/// Of a symmetric matrix, in other coordinates if there is a basis. Without one, only the upper triangle is read.
[[nodiscard]] std::shared_ptr<const DecomposedGram> decompose_gram(Matrix64 gram,
                                                                   std::shared_ptr<const ChangeOfBasis> basis = {});

/// Rows less a mean, in memory or in that of a GPU. Safe to read from several threads.
class CentredRows {
 public:
  virtual ~CentredRows() = default;
  [[nodiscard]] virtual std::size_t rows() const = 0;
  [[nodiscard]] virtual std::size_t dim() const = 0;
  /// Of each column: 0 if the mean that was taken off is that of these rows.
  [[nodiscard]] virtual std::vector<double> means() const = 0;
  [[nodiscard]] virtual std::vector<double> mean_squares() const = 0;
  /// rows weights^T, for weights of outputs x dim.
  [[nodiscard]] virtual Matrix64 times(MatrixView<const double> weights) const = 0;
  /// rows^T targets / rows, for targets of rows x outputs.
  [[nodiscard]] virtual Matrix64 cross(MatrixView<const double> targets) const = 0;
  /// In other coordinates if there is a basis.
  [[nodiscard]] virtual std::shared_ptr<const DecomposedGram> decompose(
      std::shared_ptr<const ChangeOfBasis> basis) const = 0;
};

[[nodiscard]] std::unique_ptr<const CentredRows> centre_rows(const Matrix64& rows, std::span<const double> mean,
                                                             Device device);

}  // namespace kedge
