// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/whitening.h>

#include <algorithm>

namespace kedge {
namespace {

double fourth_moment(const Moments& moments) {
  if (!moments.fourth().empty()) return moments.fourth().front() / static_cast<double>(moments.rows());
  throw Error(Code::bad_argument,
              fmt::format("the moments of '{}' lack the sums that Ledoit-Wolf needs, as those taken on a GPU do; take "
                          "them on the processor, or give a shrinkage or the rule oas",
                          moments.parts().front().space));
}

}  // namespace

double choose_shrinkage(ShrinkageRule rule, const Moments& moments) {
  const Matrix64 cells = moments.covariance();
  const auto covariance = as_eigen(cells.view());
  const auto rows = static_cast<double>(moments.rows());
  const auto dim = static_cast<double>(moments.dim());
  const double trace = covariance.trace();
  const double squares = covariance.squaredNorm();
  const double from_sphere = squares - trace * trace / dim;  // how far the covariance is from a multiple of I, squared
  if (!(from_sphere > 0)) return 1;                          // it is one
  double shrinkage = 0;
  switch (rule) {
    case ShrinkageRule::fixed: throw Error(Code::bad_argument, "a fixed shrinkage is given, not chosen");
    case ShrinkageRule::ledoit_wolf: shrinkage = (fourth_moment(moments) - squares) / rows / from_sphere; break;
    case ShrinkageRule::oas: shrinkage = (squares + trace * trace) / ((rows + 1) * from_sphere); break;
  }
  return std::clamp(shrinkage, 0.0, 1.0);
}

}  // namespace kedge
