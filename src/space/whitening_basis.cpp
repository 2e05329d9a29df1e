// SPDX-License-Identifier: Apache-2.0
#include "space/whitening_basis.h"

#include "base/eigen.h"
#include "compute/threads.h"

#include <span>
#include <utility>

namespace kedge {
namespace {

/// Row i of B is eigenvector i, divided by its value to the power of whitened / 2.
std::shared_ptr<const ChangeOfBasis> whitener_of(Matrix64 vectors, std::span<const double> values, double whitened) {
  as_eigen(vectors.view()).array().colwise() *= as_eigen(values).array().pow(-whitened / 2).transpose();
  return std::make_shared<ChangeOfBasis>(std::move(vectors));
}

/// No eigenvalue is below the variance that shrinkage spreads evenly, and none is above all the variance there is: much
/// shrinkage makes an estimate of the condition unnecessary.
bool is_comfortable(const Cholesky& factor, const WhiteningOptions& options) {
  const auto dim = static_cast<double>(factor.factor().rows());
  return factor.exists() && (options.shrinkage / dim > Cholesky::kComfortable || factor.is_comfortable());
}

}  // namespace

WhiteningBasis::WhiteningBasis(const Whitening& whitening, double whitened)
    : mean_(whitening.mean), whitener_(whitener_of(whitening.vectors, whitening.values, whitened)) {}

WhiteningBasis::WhiteningBasis(const Moments& moments, const WhiteningOptions& options, Device device, double whitened)
    : mean_(moments.mean().begin(), moments.mean().end()) {
  const Work work;
  if (whitened == 1) {
    Cholesky factor(shrunk_covariance(moments, options));
    if (is_comfortable(factor, options)) {
      whitener_ = std::make_shared<ChangeOfBasis>(std::move(factor));
      return;
    }
  }
  Eigenpairs pairs = whitening_eigenpairs(shrunk_covariance(moments, options), device);
  whitener_ = whitener_of(std::move(pairs.vectors), pairs.values, whitened);
}

}  // namespace kedge
