// SPDX-License-Identifier: Apache-2.0
#include "space/statistics.h"

#include "base/eigen.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <cmath>
#include <utility>

namespace kedge {

Statistics::Statistics(Moments moments, WhiteningOptions options, ShrinkageRule rule, Device device, bool of_support)
    : moments_(std::move(moments)), options_(options), device_(device), of_support_(of_support) {
  if (rule != ShrinkageRule::fixed) options_.shrinkage = choose_shrinkage(rule, moments_);
}

Statistics Statistics::whitened() const {
  Statistics same = *this;
  if (!whitening_) same.whitening_ = std::make_shared<const Whitening>(whitening());
  return same;
}

Whitening Statistics::whitening() const {
  return whitening_ ? *whitening_ : make_whitening(moments_, options_, device_);
}

WhiteningBasis Statistics::basis(double whitened) const {
  if (whitening_) return WhiteningBasis(*whitening_, whitened);
  return {moments_, options_, device_, whitened};
}

void require_whitenable(const Statistics& statistics) {
  constexpr double kDrowned = 10;  // so many times the variance, and the whitened rows are no longer white
  const double variance = statistics.moments().total_variance() / static_cast<double>(statistics.dim());
  const double epsilon = statistics.options().epsilon;
  if (epsilon <= kDrowned * variance) return;
  throw Error(Code::bad_file, fmt::format("space '{}': its values vary by {:.1e} on average, so little that the "
                                          "epsilon of {:.1e} added to their variance drowns them out; rescale the "
                                          "embeddings, e.g. divide them by their standard deviation, or lower epsilon",
                                          statistics.space(), std::sqrt(variance), epsilon));
}

Whitening coordinates_of(Similarity similarity, const Statistics& statistics) {
  if (similarity == Similarity::wip) return statistics.whitening();
  const std::size_t dim = statistics.dim();
  const double spread = statistics.moments().total_variance();
  Whitening scaled{{statistics.mean().begin(), statistics.mean().end()},
                   statistics.moments().covariance(),
                   Matrix64(dim, dim),
                   std::vector<double>(dim, spread),
                   Matrix64(dim, dim)};
  as_eigen(scaled.whitener.view()).diagonal().setConstant(1 / std::sqrt(spread));
  as_eigen(scaled.vectors.view()).setIdentity();
  return scaled;
}

}  // namespace kedge
