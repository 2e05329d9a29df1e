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
  /// `known` is what was drawn before; what of it is not ours is left out.
  Figures(const StitchContext& context, const std::string& known);
  ~Figures();
  Figures(const Figures&) = delete;
  Figures& operator=(const Figures&) = delete;

  /// Whether all that a shown run draws of a method is there already.
  [[nodiscard]] bool has(const std::string& method) const;

  void add(std::span<const ShownFeatures> shown, const PlannedRun& run);
  /// The spaces themselves, and their RR to the same random anchors under each similarity with how often the same row
  /// is found first, unless there already. A similarity that cannot be computed is left out.
  void add_geometry(const Progress& progress);

  [[nodiscard]] std::string text() const;

 private:
  /// Runs end in any order, of which the file should show nothing.
  void put_in_order();
  [[nodiscard]] nlohmann::ordered_json panel(const std::vector<Matrix>& features) const;
  [[nodiscard]] std::vector<Matrix> features_under(Similarity similarity, const std::vector<Matrix>& rows,
                                                   const Progress& progress) const;

  const StitchContext& context_;
  std::unique_ptr<nlohmann::ordered_json> owned_;  ///< behind a pointer, so that whoever draws need not compile it
  nlohmann::ordered_json& json_;
};

}  // namespace kedge
