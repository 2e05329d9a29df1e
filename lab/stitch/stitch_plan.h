// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/lab/stitch.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace kedge {

/// One piece of independent work: anchors learned once, and every method that can use them.
struct PlannedRun {
  std::size_t point = 0;  ///< of StitchOptions::points
  std::uint64_t seed = 0;
  std::vector<StitchMethod> methods;  ///< they share the mixture; or `absolute` alone, which has none
  std::vector<std::size_t> sources;   ///< spaces the anchors are learned from; empty for absolute
  std::vector<std::pair<std::size_t, std::size_t>> pairs;  ///< heads to judge: trained on, encoder

  /// Rough cost in floating-point operations, for progress.
  double cost = 0;
  bool shown = false;                               ///< whether the report draws it
  std::size_t shown_source = 0, shown_encoder = 0;  ///< the pair whose decoded targets are drawn
};

/// All runs of the protocol: quick ones first, so that there is something to see, then the longest. Methods that learn
/// nothing from spaces run once for all encoders, param-single once for each source, the others once for each space
/// held out.
[[nodiscard]] std::vector<PlannedRun> plan_runs(const StitchData& data, const StitchOptions& options);

/// The fit that a method asks for at a point of the options.
[[nodiscard]] FitOptions fit_options_of(const StitchMethod& method, const FitArguments& point, std::uint64_t seed,
                                        std::size_t rows);
/// How a method makes maps at a point: as its name says, or else as the effort does.
[[nodiscard]] AttachBy way_of(const StitchMethod& method, const FitArguments& point);
/// How many rows there are to learn from.
[[nodiscard]] std::size_t train_rows(const StitchData& data);
/// The name of a point in results, for so many train rows.
[[nodiscard]] StitchPoint point_of(const FitOptions& options, std::size_t rows);

}  // namespace kedge
