// SPDX-License-Identifier: Apache-2.0
#include "space/variation.h"

#include "base/eigen.h"
#include "base/finite.h"
#include "base/refuse.h"

#include <fmt/ranges.h>

#include <cmath>
#include <limits>

namespace kedge {
namespace {

void require_float32(const std::string& space, const std::string& rows, double typical) {
  const bool too_large = !(typical <= std::numeric_limits<float>::max());
  if (!too_large && (typical == 0 || typical >= std::numeric_limits<float>::min())) return;
  refuse_file(
      "space '{}': the values of {} are too {} for float32; rescale the embeddings, e.g. divide them by their "
      "standard deviation",
      space, rows, too_large ? "large" : "small");
}

}  // namespace

void require_sums(const Moments& moments) {
  const bool finite = all_finite(moments.mean()) && all_finite(moments.scatter().cells()) &&
                      all_finite(moments.third()) && all_finite(moments.fourth());
  if (finite) return;
  std::vector<std::string> names;
  for (const Moments::Part& part : moments.parts()) names.push_back(part.space);
  refuse_file(
      "the values of {} are too large to be added up; rescale the embeddings, e.g. divide them by their "
      "standard deviation",
      fmt::join(names, " or "));
}

void require_variation(const Moments& moments, std::span<const std::string> rows) {
  if (moments.rows() == 0) refuse("the moments are of no rows; statistics need at least one row");
  const auto means = as_eigen(moments.mean());
  const auto squares = as_eigen(moments.scatter().view()).diagonal();
  Eigen::Index first = 0;
  for (std::size_t i = 0; i < moments.parts().size(); ++i) {
    const auto dim = static_cast<Eigen::Index>(moments.parts()[i].dim);
    const auto mean = means.segment(first, dim);
    const double spread = squares.segment(first, dim).sum() / static_cast<double>(moments.rows());
    const std::string& space = moments.parts()[i].space;
    require_float32(space, rows[i], mean.lpNorm<Eigen::Infinity>() + std::sqrt(spread / static_cast<double>(dim)));
    constexpr double kRounding = 1e-13;  // of sums over many equal rows
    const double rounding = kRounding * mean.norm();
    if (!(spread > rounding * rounding)) {
      refuse_file("space '{}': {} are all the same, so they cannot be told apart; is it the right file?", space,
                  rows[i]);
    }
    first += dim;
  }
}

}  // namespace kedge
