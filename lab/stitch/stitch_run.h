// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stitch/stitch_context.h"
#include "stitch/stitch_plan.h"

#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace kedge {

/// What the report draws of a method: features of test rows, and decoded targets.
struct ShownFeatures {
  std::string method;
  std::optional<std::string> held_out;
  std::vector<Matrix> features;  ///< of each space's first test rows; empty for absolute
  Matrix decoded;                ///< of the shown encoder's first test rows, by the head of the shown source
};

/// Identifies a measurement.
using MeasurementKey = std::tuple<std::string, std::string, std::string, std::uint64_t, StitchPoint>;
[[nodiscard]] MeasurementKey key_of(const Measurement& m);

/// Measurements that existed before the stitch. They stay as they are and are not made again.
class KnownMeasurements {
 public:
  KnownMeasurements() = default;
  explicit KnownMeasurements(std::span<const Measurement> known);
  [[nodiscard]] bool has(const Measurement& m) const { return keys_.contains(key_of(m)); }

 private:
  std::set<MeasurementKey> keys_;
};

struct RunOutcome {
  std::vector<Measurement> measurements;  ///< those that were not known, method by method
  std::vector<StitchRun> runs;            ///< one for each method; those that share the fit share its time
  std::vector<ShownFeatures> shown;       ///< of a run that is shown
};

/// Learns the anchors of a run from its sources' train rows, the only rows this function can reach.
[[nodiscard]] Bundle learn_anchors(const StitchContext& context, const PlannedRun& run, const Progress& progress);

/// What a run learned, with maps of all spaces for one of its methods. The sources keep theirs if that is the one it
/// learned by; under another similarity or way to attach, all maps are made anew.
[[nodiscard]] Bundle attach_all(const StitchContext& context, const PlannedRun& run, const StitchMethod& method,
                                const Bundle& learned);

/// A measurement of a run, without its numbers. `pair`: trained on, encoder.
[[nodiscard]] Measurement unmeasured(const StitchContext& context, const PlannedRun& run, const StitchMethod& method,
                                     std::pair<std::size_t, std::size_t> pair);

/// Fits, attaches the other spaces, trains heads and judges them; for known pairs, only the head whose decoded targets
/// are shown.
[[nodiscard]] RunOutcome execute(const StitchContext& context, const PlannedRun& run, const Progress& progress,
                                 const KnownMeasurements& known = {});

/// Path of the bundle of a run's method; "" if bundles are not kept.
[[nodiscard]] std::string bundle_file(const StitchContext& context, const PlannedRun& run, const StitchMethod& method);

/// Test rows that are drawn.
inline constexpr std::size_t kShownRows = 500;

}  // namespace kedge
