// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cholesky.h"

#include <kedge/matrix.h>

#include <optional>
#include <utility>

namespace kedge {

/// A matrix B that whitens, B Sigma B^T = I: the inverse of a Cholesky factor, or any other as it is.
class Whitener {
 public:
  explicit Whitener(Cholesky factor) : factor_(std::move(factor)) {}
  explicit Whitener(Matrix64 basis) : basis_(std::move(basis)) {}

  /// x = x B^T: every row, which is centred, becomes whitened.
  void whiten_rows(MatrixView<double> x) const;
  /// x = B x, the same for columns.
  void whiten_columns(MatrixView<double> x) const;
  /// x = x B: what is multiplied with whitened rows becomes what is multiplied with centred ones.
  void fold_rows(MatrixView<double> x) const;
  /// x = B^T x, the same for columns.
  void fold_columns(MatrixView<double> x) const;

  /// Whose inverse B is; none where there is a basis().
  [[nodiscard]] const std::optional<Cholesky>& factor() const { return factor_; }
  /// B; empty where there is a factor().
  [[nodiscard]] const Matrix64& basis() const { return basis_; }

 private:
  std::optional<Cholesky> factor_;
  Matrix64 basis_;
};

}  // namespace kedge
