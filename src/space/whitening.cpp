// SPDX-License-Identifier: Apache-2.0
#include <kedge/whitening.h>

#include "base/eigen.h"
#include "base/refuse.h"
#include "compute/products.h"
#include "compute/threads.h"
#include "space/whitening_basis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace kedge {
namespace {

double fourth_moment(const Moments& moments) {
  if (!moments.fourth().empty()) return moments.fourth().front() / static_cast<double>(moments.rows());
  refuse(
      "the moments of '{}' lack the sums that Ledoit-Wolf needs, as those taken on a GPU do; take them on the "
      "processor, or give a shrinkage or the rule oas",
      moments.parts().front().space);
}

void require_varying(std::span<const double> ascending) {
  const double noise =
      ascending.back() * static_cast<double>(ascending.size()) * std::numeric_limits<double>::epsilon();
  if (ascending.front() > noise) return;
  refuse(
      "the covariance is singular, so it cannot be whitened: some direction of the space never varies; raise the "
      "shrinkage or epsilon above 0");
}

/// Row i of B is eigenvector i, divided by its value to the power of whitened / 2.
std::shared_ptr<const ChangeOfBasis> whitener_of(Matrix64 vectors, std::span<const double> values, double whitened) {
  as_eigen(vectors.view()).array().colwise() *= as_eigen(values).array().pow(-whitened / 2).transpose();
  return std::make_shared<ChangeOfBasis>(std::move(vectors));
}

/// No eigenvalue is below the variance that shrinkage spreads evenly, and none above the total variance: with enough
/// shrinkage, the condition need not be estimated.
bool is_comfortable(const Cholesky& factor, const WhiteningOptions& options) {
  const auto dim = static_cast<double>(factor.factor().rows());
  return factor.exists() && (options.shrinkage / dim > Cholesky::kComfortable || factor.is_comfortable());
}

}  // namespace

double choose_shrinkage(ShrinkageRule rule, const Moments& moments) {
  const Matrix64 cells = moments.covariance();
  const auto covariance = as_eigen(cells.view());
  const auto rows = static_cast<double>(moments.rows());
  const auto dim = static_cast<double>(moments.dim());
  const double trace = covariance.trace();
  const double squares = covariance.squaredNorm();
  const double from_sphere = squares - trace * trace / dim;  // squared distance from a multiple of the identity
  if (!(from_sphere > 0)) return 1;
  double shrinkage = 0;
  switch (rule) {
    case ShrinkageRule::fixed: refuse("a fixed shrinkage is given, not chosen");
    case ShrinkageRule::ledoit_wolf: shrinkage = (fourth_moment(moments) - squares) / rows / from_sphere; break;
    case ShrinkageRule::oas: shrinkage = (squares + trace * trace) / ((rows + 1) * from_sphere); break;
  }
  return std::clamp(shrinkage, 0.0, 1.0);
}

Matrix64 shrunk_covariance(const Moments& moments, const WhiteningOptions& options) {
  if (!(options.shrinkage >= 0 && options.shrinkage <= 1)) {
    refuse("shrinkage is {}, expected a number from 0 to 1", options.shrinkage);
  }
  if (!(options.epsilon >= 0) || std::isinf(options.epsilon)) {
    refuse("epsilon is {}, expected 0 or a small positive number", options.epsilon);
  }
  Matrix64 shrunk = moments.covariance();
  auto covariance = as_eigen(shrunk.view());
  const double spread = covariance.trace() / static_cast<double>(moments.dim());
  covariance *= 1 - options.shrinkage;
  covariance.diagonal().array() += options.shrinkage * spread + options.epsilon;
  return shrunk;
}

Whitening make_whitening(const Moments& moments, const WhiteningOptions& options, Device device) {
  const Work work;
  const auto mean = moments.mean();
  Whitening result{{mean.begin(), mean.end()}, shrunk_covariance(moments, options), {}, {}, {}};
  Eigenpairs pairs = eigh_with_root(result.covariance, result.whitener, device);
  require_varying(pairs.values);
  result.values = std::move(pairs.values);
  result.vectors = std::move(pairs.vectors);
  return result;
}

void whiten(const Whitening& whitening, MatrixView<double> rows) {
  const Work work;
  auto x = as_eigen(rows);
  x.rowwise() -= as_eigen(std::span(whitening.mean));
  x = product(x, whitening.whitener.view());
}

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
  Eigenpairs pairs = eigh(shrunk_covariance(moments, options), device);
  require_varying(pairs.values);
  whitener_ = whitener_of(std::move(pairs.vectors), pairs.values, whitened);
}

}  // namespace kedge
