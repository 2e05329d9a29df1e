// SPDX-License-Identifier: Apache-2.0
#include "space/statistics.h"

#include "base/eigen.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <cmath>
#include <utility>

namespace kedge {

Statistics statistics_of(Moments moments, WhiteningOptions options, ShrinkageRule rule, Device device) {
  if (rule != ShrinkageRule::fixed) options.shrinkage = choose_shrinkage(rule, moments);
  return {std::move(moments), options, {}, device};
}

void require_whitenable(const Statistics& statistics) {
  constexpr double kDrowned = 10;  // so many times the variance, and the whitened rows are no longer white
  const double variance = statistics.moments.total_variance() / static_cast<double>(statistics.dim());
  if (statistics.options.epsilon <= kDrowned * variance) return;
  throw Error(Code::bad_file, fmt::format("space '{}': its values vary by {:.1e} on average, so little that the "
                                          "epsilon of {:.1e} added to their variance drowns them out; rescale the "
                                          "embeddings, e.g. divide them by their standard deviation, or lower epsilon",
                                          statistics.space(), std::sqrt(variance), statistics.options.epsilon));
}

Whitening whitening_of(const Statistics& statistics) {
  if (statistics.whitening) return *statistics.whitening;
  return make_whitening(statistics.moments, statistics.options, statistics.device);
}

std::shared_ptr<const WhiteningBasis> basis_of(const Statistics& statistics) {
  if (statistics.basis) return statistics.basis;
  if (statistics.whitening) return std::make_shared<WhiteningBasis>(*statistics.whitening);
  return std::make_shared<WhiteningBasis>(statistics.moments, statistics.options, statistics.device);
}

std::shared_ptr<const WhiteningBasis> half_basis_of(const Statistics& statistics) {
  if (statistics.whitening) return std::make_shared<WhiteningBasis>(*statistics.whitening, kHalf);
  return std::make_shared<WhiteningBasis>(statistics.moments, statistics.options, statistics.device, kHalf);
}

Whitening coordinates_of(Similarity similarity, const Statistics& statistics) {
  if (similarity == Similarity::wip) return whitening_of(statistics);
  const std::size_t dim = statistics.dim();
  const double spread = statistics.moments.total_variance();
  const auto mean = statistics.moments.mean();
  Whitening scaled{{mean.begin(), mean.end()},
                   statistics.moments.covariance(),
                   Matrix64(dim, dim),
                   std::vector<double>(dim, spread),
                   Matrix64(dim, dim)};
  as_eigen(scaled.whitener.view()).diagonal().setConstant(1 / std::sqrt(spread));
  as_eigen(scaled.vectors.view()).setIdentity();
  return scaled;
}

}  // namespace kedge
