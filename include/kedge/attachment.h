// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/kernel.h>
#include <kedge/matrix.h>
#include <kedge/relative_map.h>
#include <kedge/row_check.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kedge {

/// How the map of a space may be made.
enum class AttachBy {
  mixture,    ///< its anchors are the mixture of its support rows, as in the paper
  ridge,      ///< it regresses the bundle's targets on its support rows; needs targets, which wip bundles have
  kernel,     ///< as ridge, but through a kernel with the support rows: not linear, slower, and mostly better
  automatic,  ///< ridge or kernel, whichever has the smaller leave-one-out error
};

[[nodiscard]] std::string_view to_string(AttachBy by);
/// Throws Error(Code::bad_argument) that lists the names.
[[nodiscard]] AttachBy parse_attach_by(std::string_view name);

/// Whether a map made so regresses targets.
[[nodiscard]] constexpr bool regresses(AttachBy by) {
  return by == AttachBy::ridge || by == AttachBy::kernel || by == AttachBy::automatic;
}

/// How a ridge was chosen and how well it does on rows it has not seen, as generalised cross-validation estimates it.
struct RidgeFit {
  double strength = 0;    ///< relative to the mean variance of the features
  double whitening = 1;   ///< of the features its penalty is measured in: 1 whitened, 0.5 half, 0 as they are
  std::vector<float> r2;  ///< explained share of the variance of each output, 1 down to -1; 0 for one that is constant
  double mean_r2 = 0;     ///< of the outputs that vary
  double error = 0;       ///< unexplained share of the variance of all outputs together; known while a bundle is made
};

/// How well a mixture's map does at support rows that are left out of the mixture one by one.
struct MixtureFit {
  std::vector<float> r2;  ///< as of a ridge, with the bundle's targets as the truth
  double mean_r2 = 0;
};

/// What `automatic` chose by: the share of the targets' variance that each way leaves unexplained at rows left out.
struct AttachChoice {
  double ridge_error = 0, kernel_error = 0;
};

/// The way back, RR -> x: weight RR + bias.
struct Decoder {
  Matrix weight;  ///< dim x anchors
  std::vector<float> bias;
  RidgeFit fit;
};

/// How a map was made: by mixture.
struct ByMixture {
  std::optional<MixtureFit> fit = {};  ///< if the bundle has targets
};

/// By ridge.
struct ByRidge {
  RidgeFit fit;
  std::optional<AttachChoice> choice = {};  ///< if the way was chosen
};

/// By kernel.
struct ByKernel {
  KernelFit fit;
  std::optional<AttachChoice> choice = {};  ///< if the way was chosen
  /// Maps the other space's embeddings to this one's. Only the first space of an adapter by kernel has it; spaces
  /// attached later are decoded linearly.
  std::shared_ptr<const RelativeMap> reverse = {};
  std::optional<KernelFit> reverse_fit = {};  ///< of that; without R^2 of each value if it was read from a file
};

/// Solved for together with the targets: the spaces of an adapter for one pair.
struct Directly {};

using AttachedBy = std::variant<ByMixture, ByRidge, ByKernel, Directly>;
/// mixture, ridge, kernel or direct.
[[nodiscard]] std::string_view to_string(const AttachedBy& by);

/// Support rows of a space as they are, with which a translation regresses its own pair of spaces.
struct KeptRows {
  Matrix rows;
  std::vector<std::int64_t> places = {};  ///< which of the support rows they are, ascending; empty if all
};

/// How much of another space's rows a translation is expected to explain.
struct ExpectedTranslation {
  std::string to;
  double r2 = 0;  ///< share of the variance of all values together, at rows it has not seen
};

/// One space of a bundle: its map, how that was made, and the way back if there is one. Copies share what is large.
struct Attachment {
  std::shared_ptr<const RelativeMap> map;
  AttachedBy by = {};
  double shrinkage = 0;  ///< of its covariance
  std::shared_ptr<const Decoder> decoder = {};
  std::optional<RowCheck> row_check = {};  ///< if there were rows enough to check
  std::optional<WrongPairs> wrong_pairs = {};
  std::shared_ptr<const KeptRows> kept = {};           ///< if the bundle keeps rows
  std::vector<ExpectedTranslation> translations = {};  ///< into other sources, if known; only while a fit is made

  [[nodiscard]] const std::string& space() const { return map->space(); }
  /// What is known of how it was made; null if that is something else.
  [[nodiscard]] const MixtureFit* mixture() const;
  [[nodiscard]] const RidgeFit* ridge() const;
  [[nodiscard]] const KernelFit* kernel() const;
  [[nodiscard]] const AttachChoice* choice() const;
  [[nodiscard]] const RelativeMap* reverse() const;
  [[nodiscard]] const KernelFit* reverse_fit() const;
};

}  // namespace kedge
