// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cholesky.h"

#include <kedge/matrix.h>
#include <kedge/whitening.h>

#include <optional>
#include <vector>

namespace kedge {

/// A matrix B that whitens, B Sigma B^T = I, and so L but for a rotation, which neither a consensus nor a ridge can
/// see. A Cholesky decomposition finds one in a small part of the time that eigenvectors take.
class WhiteningBasis {
 public:
  /// Of the shrunk covariance. Eigenvectors are taken where it is nearly singular. Throws what make_whitening throws.
  WhiteningBasis(const Moments& moments, const WhiteningOptions& options, Device device = Device::cpu);
  /// Of eigenvectors that are known: whitened so far, 1 all the way, 0 not at all.
  explicit WhiteningBasis(const Whitening& whitening, double whitened = 1);

  [[nodiscard]] const std::vector<double>& mean() const { return mean_; }
  [[nodiscard]] std::size_t dim() const { return mean_.size(); }
  /// x = x B^T: every row, which is centred, becomes whitened.
  void whiten_rows(MatrixView<double> x) const;
  /// x = B x, the same for columns.
  void whiten_columns(MatrixView<double> x) const;
  /// x = x B: what is multiplied with whitened rows becomes what is multiplied with centred ones.
  void fold_rows(MatrixView<double> x) const;

 private:
  std::vector<double> mean_;
  std::optional<Cholesky> factor_;
  Matrix64 basis_;  ///< B, where there is no factor
};

}  // namespace kedge
