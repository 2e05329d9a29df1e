// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/whitener.h"

#include <kedge/device.h>
#include <kedge/matrix.h>

#include <memory>
#include <span>
#include <vector>

namespace kedge {

/// Products of rows, x^T x / rows, in coordinates where they are tridiagonal or diagonal: decomposed once, and then
/// solving with any penalty costs no more than reading the right side.
class DecomposedGram {
 public:
  virtual ~DecomposedGram() = default;
  [[nodiscard]] virtual std::size_t dim() const = 0;
  /// Ascending.
  [[nodiscard]] virtual std::vector<double> eigenvalues() const = 0;
  /// What is multiplied with the rows as they were given, dim x outputs, becomes what it is in these coordinates.
  virtual void to_inside(MatrixView<double> cross) const = 0;
  /// y = (T + k I)^-1 x in these coordinates, for the columns of x; y may be x. k must be positive.
  virtual void solve(double k, MatrixView<const double> x, MatrixView<double> y) const = 0;
  /// The way back: a solution becomes what rows as they were given are multiplied with.
  virtual void to_outside(MatrixView<double> solution) const = 0;
};

/// Of a symmetric matrix, whose upper triangle is read; whitened first where there is a whitener, and then read whole.
[[nodiscard]] std::shared_ptr<const DecomposedGram> decompose_gram(Matrix64 gram,
                                                                   std::shared_ptr<const Whitener> whitener = {});

/// One space's rows less a mean, where a fit computes: in memory, or in that of the GPU. Safe to read from several
/// threads.
class CentredRows {
 public:
  virtual ~CentredRows() = default;
  [[nodiscard]] virtual std::size_t rows() const = 0;
  [[nodiscard]] virtual std::size_t dim() const = 0;
  /// Of each column, which is 0 where the mean that was taken off is that of these rows.
  [[nodiscard]] virtual std::vector<double> means() const = 0;
  [[nodiscard]] virtual std::vector<double> mean_squares() const = 0;
  /// rows weights^T, for weights of outputs x dim.
  [[nodiscard]] virtual Matrix64 times(MatrixView<const double> weights) const = 0;
  /// rows^T targets / rows, for targets of rows x outputs.
  [[nodiscard]] virtual Matrix64 cross(MatrixView<const double> targets) const = 0;
  /// Whitened first where there is a whitener.
  [[nodiscard]] virtual std::shared_ptr<const DecomposedGram> decompose(
      std::shared_ptr<const Whitener> whitener) const = 0;
};

[[nodiscard]] std::unique_ptr<const CentredRows> centre_rows(const Matrix64& rows, std::span<const double> mean,
                                                             Device device);

}  // namespace kedge
