// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stitch/stitch_run.h"

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace kedge {

/// What the report draws, as JSON: two principal components of some test rows before and after, and decoded targets.
/// Later panels of a method replace earlier ones.
class Figures {
 public:
  /// `known` is an earlier figures.json; unknown parts are left out.
  Figures(const StitchContext& context, const std::string& known);
  ~Figures();
  Figures(const Figures&) = delete;
  Figures& operator=(const Figures&) = delete;

  /// Whether everything that a shown run draws of a method exists already.
  [[nodiscard]] bool has(const std::string& method) const;

  void add(std::span<const ShownFeatures> shown, const PlannedRun& run);
  /// Draws the spaces themselves and, unless done before, their RR to the same random anchors under each similarity,
  /// with how often the same row is found first. A similarity that cannot be computed is left out.
  void add_geometry(const Progress& progress);

  [[nodiscard]] std::string text() const;

 private:
  /// Sorts the panels, because runs end in any order.
  void put_in_order();
  [[nodiscard]] nlohmann::ordered_json panel(const std::vector<Matrix>& features) const;
  [[nodiscard]] std::vector<Matrix> features_under(Similarity similarity, const std::vector<Matrix>& rows,
                                                   const Progress& progress) const;

  const StitchContext& context_;
  std::unique_ptr<nlohmann::ordered_json> owned_;  ///< a pointer, so that includers need not compile it
  nlohmann::ordered_json& json_;
};

}  // namespace kedge
