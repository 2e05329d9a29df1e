// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"
#include "compute/products.h"
#include "compute/threads.h"
#include "space/whitening_basis.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/whitening.h>

#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace kedge {

Matrix64 shrunk_covariance(const Moments& moments, const WhiteningOptions& options) {
  if (!(options.shrinkage >= 0 && options.shrinkage <= 1)) {
    throw Error(Code::bad_argument, fmt::format("shrinkage is {}, expected a number from 0 to 1", options.shrinkage));
  }
  if (!(options.epsilon >= 0) || std::isinf(options.epsilon)) {
    throw Error(Code::bad_argument,
                fmt::format("epsilon is {}, expected 0 or a small positive number", options.epsilon));
  }
  Matrix64 shrunk = moments.covariance();
  auto covariance = as_eigen(shrunk.view());
  const double spread = covariance.trace() / static_cast<double>(moments.dim());
  covariance *= 1 - options.shrinkage;
  covariance.diagonal().array() += options.shrinkage * spread + options.epsilon;
  return shrunk;
}

namespace {

void require_varying(std::span<const double> ascending) {
  const double noise =
      ascending.back() * static_cast<double>(ascending.size()) * std::numeric_limits<double>::epsilon();
  if (ascending.front() > noise) return;
  throw Error(Code::bad_argument,
              "the covariance is singular, so it cannot be whitened: some direction of the space "
              "never varies; raise the shrinkage or epsilon above 0");
}

}  // namespace

Eigenpairs whitening_eigenpairs(const Matrix64& shrunk, Device device) {
  Eigenpairs pairs = eigh(shrunk, device);
  require_varying(pairs.values);
  return pairs;
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

}  // namespace kedge
