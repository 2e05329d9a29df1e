// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>
#include <kedge/names.h>
#include <kedge/relative_map.h>
#include <kedge/row_check.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kedge {

/// How the map of a space is made.
enum class AttachBy {
  mixture,  ///< its anchors are the mixture of its support rows, as in the paper
  ridge,    ///< it regresses the bundle's targets on its support rows; needs targets, which wip bundles have
  direct,   ///< it was solved for together with the targets; only the two spaces of a pairwise adapter
};

template <>
inline constexpr Names<3> kNamesOf<AttachBy>{"way to attach", {"mixture", "ridge", "direct"}};
inline constexpr NameParser<AttachBy> parse_attach_by;

/// How a ridge was chosen and how well it does on rows it has not seen, as cross-validation estimates it.
struct RidgeFit {
  double strength = 0;    ///< relative to the mean variance of the features
  double whitening = 1;   ///< of the features its penalty is measured in: 1 whitened, 0.5 half, 0 as they are
  std::vector<float> r2;  ///< explained share of the variance of each output, 1 down to -1; 0 for one that is constant
  double mean_r2 = 0;     ///< of the outputs that vary
};

/// How well a mixture's map does at support rows that are left out of the mixture one by one.
struct MixtureFit {
  std::vector<float> r2;  ///< as of a ridge, with the bundle's targets as the truth
  double mean_r2 = 0;
};

/// The way back, RR -> x: weight RR + bias.
struct Decoder {
  Matrix weight;  ///< dim x anchors
  std::vector<float> bias;
  RidgeFit fit;
};

/// One space of a bundle: its map, how that was made, and the way back where there is one. Cheap to copy: what is large
/// is shared and never changes.
struct Attachment {
  std::shared_ptr<const RelativeMap> map;
  AttachBy by = AttachBy::mixture;
  double shrinkage = 0;                ///< of its covariance
  std::optional<RidgeFit> ridge = {};  ///< where the map was made by ridge
  std::shared_ptr<const Decoder> decoder = {};
  std::optional<MixtureFit> mixture = {};  ///< where it was made by mixture and the bundle has targets
  std::optional<RowCheck> row_check = {};  ///< where there were rows enough to check

  [[nodiscard]] const std::string& space() const { return map->space(); }
};

}  // namespace kedge
