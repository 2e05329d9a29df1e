// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cholesky.h"

#include <kedge/matrix.h>

#include <optional>
#include <utility>

namespace kedge {

/// A square matrix B that vectors are multiplied with: the inverse of a Cholesky factor, or any matrix as it is.
class ChangeOfBasis {
 public:
  explicit ChangeOfBasis(Cholesky factor) : factor_(std::move(factor)) {}
  explicit ChangeOfBasis(Matrix64 matrix) : matrix_(std::move(matrix)) {}

  void apply_to_rows(MatrixView<double> x) const;       ///< x = x B^T
  void apply_to_columns(MatrixView<double> x) const;    ///< x = B x
  void adjoint_to_rows(MatrixView<double> x) const;     ///< x = x B
  void adjoint_to_columns(MatrixView<double> x) const;  ///< x = B^T x

  /// Whose inverse B is; none if there is a matrix().
  [[nodiscard]] const std::optional<Cholesky>& factor() const { return factor_; }
  /// B; empty if there is a factor().
  [[nodiscard]] const Matrix64& matrix() const { return matrix_; }

 private:
  std::optional<Cholesky> factor_;
  Matrix64 matrix_;
};

}  // namespace kedge
