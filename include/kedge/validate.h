// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/fit.h>
#include <kedge/metrics.h>
#include <kedge/progress.h>
#include <kedge/space.h>

#include <span>
#include <string>
#include <vector>

namespace kedge {

/// How well a space does that was attached to a fit of the others, on rows unseen by it: means over those spaces.
struct HeldOutScore {
  std::string space;
  std::size_t rows = 0;  ///< that were scored, and among which each had to be found
  double mrr = 0;
  std::vector<double> recall;  ///< for each k of CompareOptions::recall_at
  double nmse = 0;
};

/// Which rows are kept from the fits and scored: every tenth, or fewer if that would be more than kMostRows.
struct HeldOutRows {
  static constexpr std::size_t kStride = 10;
  static constexpr std::size_t kMostRows = 2000;
};

/// How an encoder that is yet unseen would do: holds out each space in turn, fits the others with the same options,
/// attaches it and scores it. Support ids are drawn anew, because rows are held out too.
/// Throws what fit() throws, and Error(Code::bad_argument) for fewer than three spaces or too few rows.
[[nodiscard]] std::vector<HeldOutScore> validate(std::span<const Space> spaces, const FitOptions& options,
                                                 const CompareOptions& compare_options = {},
                                                 const Progress& progress = {});

}  // namespace kedge
