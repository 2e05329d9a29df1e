// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/covariance.h"
#include "compute/lapack.h"

#include <kedge/matrix.h>
#include <kedge/whitening.h>

#include <memory>
#include <vector>

namespace kedge {

/// Partial whitening, between 0 for none and 1 for full: it restrains directions of little variance, which helps if
/// support rows are few.
constexpr double kHalf = 0.5;

/// A matrix B that whitens, B Sigma B^T = I. It differs from L by a rotation, which changes neither a consensus nor a
/// ridge, and a Cholesky decomposition finds it much faster than eigenvectors could.
class WhiteningBasis {
 public:
  /// From the shrunk covariance: by Cholesky, or by eigenvectors if that is nearly singular or `whitened` is below 1.
  /// Throws what make_whitening throws.
  WhiteningBasis(const Moments& moments, const WhiteningOptions& options, Device device = Device::cpu,
                 double whitened = 1);
  /// From eigenvectors that are known.
  explicit WhiteningBasis(const Whitening& whitening, double whitened = 1);

  [[nodiscard]] const std::vector<double>& mean() const { return mean_; }
  [[nodiscard]] std::size_t dim() const { return mean_.size(); }
  [[nodiscard]] const std::shared_ptr<const ChangeOfBasis>& whitener() const { return whitener_; }

 private:
  std::vector<double> mean_;
  std::shared_ptr<const ChangeOfBasis> whitener_;
};

}  // namespace kedge
