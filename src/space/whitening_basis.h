// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/covariance.h"
#include "compute/lapack.h"

#include <kedge/matrix.h>
#include <kedge/whitening.h>

#include <memory>
#include <vector>

namespace kedge {

/// Partial whitening, 1 being full and 0 none: it restrains directions of little variance, which helps if support rows
/// are few.
constexpr double kHalf = 0.5;

/// A matrix B that whitens, B Sigma B^T = I. It is L but for a rotation, which makes no difference to a consensus or a
/// ridge, and a Cholesky decomposition finds it in a small part of the time that eigenvectors take.
class WhiteningBasis {
 public:
  /// Of the shrunk covariance, whitened so far: 1 all the way, 0 not at all. Eigenvectors are taken if it is nearly
  /// singular, or not to be whitened all the way. Throws what make_whitening throws.
  WhiteningBasis(const Moments& moments, const WhiteningOptions& options, Device device = Device::cpu,
                 double whitened = 1);
  /// The same of eigenvectors that are known.
  explicit WhiteningBasis(const Whitening& whitening, double whitened = 1);

  [[nodiscard]] const std::vector<double>& mean() const { return mean_; }
  [[nodiscard]] std::size_t dim() const { return mean_.size(); }
  [[nodiscard]] const std::shared_ptr<const ChangeOfBasis>& whitener() const { return whitener_; }

 private:
  std::vector<double> mean_;
  std::shared_ptr<const ChangeOfBasis> whitener_;
};

/// The eigenpairs of a shrunk covariance. Throws Error(Code::bad_argument) if some direction never varies.
[[nodiscard]] Eigenpairs whitening_eigenpairs(const Matrix64& shrunk, Device device);

}  // namespace kedge
