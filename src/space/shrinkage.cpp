// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"

#include <kedge/error.h>
#include <kedge/whitening.h>

#include <algorithm>

namespace kedge {
namespace {

constexpr std::size_t kBlockRows = 1024;

/// The mean of |x - mean|^4.
double fourth_moment(const Space& space, const Moments& moments) {
  Matrix64 buffer(std::min(kBlockRows, space.rows()), space.dim());
  double sum = 0;
  for (std::size_t first = 0; first < space.rows(); first += buffer.rows()) {
    const auto block = buffer.view().middle_rows(0, std::min(buffer.rows(), space.rows() - first));
    space.read(first, block);
    sum += (as_eigen(block).rowwise() - as_eigen(std::span(moments.mean))).rowwise().squaredNorm().squaredNorm();
  }
  return sum / static_cast<double>(space.rows());
}

}  // namespace

double choose_shrinkage(ShrinkageRule rule, const Space& space, const Moments& moments) {
  const auto covariance = as_eigen(moments.covariance.view());
  const auto rows = static_cast<double>(moments.rows);
  const auto dim = static_cast<double>(moments.mean.size());
  const double trace = covariance.trace();
  const double squares = covariance.squaredNorm();
  const double from_sphere = squares - trace * trace / dim;  // how far the covariance is from a multiple of I, squared
  if (!(from_sphere > 0)) return 1;                          // it is one
  double shrinkage = 0;
  switch (rule) {
    case ShrinkageRule::fixed: throw Error(Code::bad_argument, "a fixed shrinkage is given, not chosen");
    case ShrinkageRule::ledoit_wolf: shrinkage = (fourth_moment(space, moments) - squares) / rows / from_sphere; break;
    case ShrinkageRule::oas: shrinkage = (squares + trace * trace) / ((rows + 1) * from_sphere); break;
  }
  return std::clamp(shrinkage, 0.0, 1.0);
}

}  // namespace kedge
