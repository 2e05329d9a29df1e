// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "eval/stitch_run.h"

#include <nlohmann/json.hpp>

#include <span>
#include <vector>

namespace kedge {

/// What the report draws, as JSON: two principal components of some test rows before and after, and decoded targets.
/// Later panels of a method replace earlier ones.
class Figures {
 public:
  /// `known` is what was drawn before, or empty.
  Figures(const StitchContext& context, const std::string& known);

  void add(std::span<const ShownFeatures> shown, const PlannedRun& run);
  /// The spaces themselves, and their RR to the same random anchors under each similarity, unless there already.
  void add_geometry();

  [[nodiscard]] std::string text() const { return json_.dump(); }

 private:
  using Json = nlohmann::ordered_json;
  [[nodiscard]] Json panel(const std::vector<Matrix>& features) const;

  const StitchContext& context_;
  Json json_;
};

}  // namespace kedge
