// SPDX-License-Identifier: Apache-2.0
#include "backend/eigh.h"
#include "backend/products.h"
#include "backend/threads.h"
#include "base/eigen.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/whitening.h>

#include <cmath>
#include <limits>
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

Whitening make_whitening(const Moments& moments, const WhiteningOptions& options, Device device) {
  const Work work;
  const auto mean = moments.mean();
  Whitening result{
      {mean.begin(), mean.end()}, shrunk_covariance(moments, options), Matrix64(moments.dim(), moments.dim()), {}, {}};
  const auto dim = static_cast<double>(moments.dim());
  Eigenpairs pairs = eigh(result.covariance, device);
  const double smallest = pairs.values.front();
  const double noise = pairs.values.back() * dim * std::numeric_limits<double>::epsilon();
  if (!(smallest > noise)) {
    throw Error(Code::bad_argument,
                "the covariance is singular, so it cannot be whitened: some direction of the space "
                "never varies; raise the shrinkage or epsilon above 0");
  }
  // Row i of `vectors` scaled by values^(-1/4) on both sides of the product gives sum_i v_i v_i^T / sqrt(values_i).
  EigenRows<double> scaled = as_eigen(pairs.vectors.view());
  for (std::size_t i = 0; i < pairs.values.size(); ++i) {
    scaled.row(static_cast<Eigen::Index>(i)) /= std::pow(pairs.values[i], 0.25);
  }
  set_product(result.whitener.view(), scaled.transpose(), scaled);
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
