// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/eigh.h"
#include "compute/whitener.h"

#include <kedge/matrix.h>
#include <kedge/whitening.h>

#include <memory>
#include <vector>

namespace kedge {

/// A matrix B that whitens, B Sigma B^T = I, and so L but for a rotation, which neither a consensus nor a ridge can
/// see. A Cholesky decomposition finds one in a small part of the time that eigenvectors take.
class WhiteningBasis {
 public:
  /// Of the shrunk covariance, whitened so far: 1 all the way, 0 not at all. Eigenvectors are taken where it is nearly
  /// singular, or not to be whitened all the way. Throws what make_whitening throws.
  WhiteningBasis(const Moments& moments, const WhiteningOptions& options, Device device = Device::cpu,
                 double whitened = 1);
  /// The same of eigenvectors that are known.
  explicit WhiteningBasis(const Whitening& whitening, double whitened = 1);

  [[nodiscard]] const std::vector<double>& mean() const { return mean_; }
  [[nodiscard]] std::size_t dim() const { return mean_.size(); }
  [[nodiscard]] const std::shared_ptr<const Whitener>& whitener() const { return whitener_; }

 private:
  std::vector<double> mean_;
  std::shared_ptr<const Whitener> whitener_;
};

/// The eigenpairs of a shrunk covariance. Throws Error(Code::bad_argument) where some direction never varies.
[[nodiscard]] Eigenpairs whitening_eigenpairs(const Matrix64& shrunk, Device device);

}  // namespace kedge
