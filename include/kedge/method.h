// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/param.h>

#include <cstddef>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

namespace kedge {

/// Gradient descent on the targets of a consensus, from the closed form on.
struct Refinement {
  std::optional<std::size_t> epochs;  ///< passes at most, 0 for none; default: none, or 30 for the best effort
  double rate = 0.01;                 ///< learning rate, relative to the size of the targets
  double tau = 0.05;                  ///< temperature of its contrastive loss
  std::size_t batch = 1024;           ///< parallel rows per step; a tenth of all rows, or this if fewer, is held out
  std::size_t patience = 5;           ///< epochs without a better loss on the rows held out before it stops
  static constexpr std::size_t kBestEpochs = 30;

  friend bool operator==(const Refinement&, const Refinement&) = default;
};

/// In closed form: what the whitened spaces agree on most.
struct Consensus {
  double power = 0.5;  ///< an anchor's weight is the spaces' agreement on it to this power; 0: all the same
  Refinement refinement = {};

  friend bool operator==(const Consensus&, const Consensus&) = default;
};

/// A choice among the support rows.
enum class Choice {
  random,  ///< drawn at random
  kmeans,  ///< the mean of each cluster
  fps,     ///< farthest-point: each new anchor is the row farthest from those before
};

struct ChosenRows {
  Choice by = Choice::random;
  std::optional<std::size_t> keep = {};  ///< largest weights kept of each anchor; default: all

  friend bool operator==(const ChosenRows&, const ChosenRows&) = default;
};

/// What joins exactly two spaces, directly and not through anchors: a baseline.
enum class Pairwise {
  procrustes,  ///< the first space is rotated onto the second
  ridge,       ///< the second space is regressed on the first
  cca,         ///< canonical correlations
  kernel,      ///< the second space is regressed on the first, and the first on it, by kernels
};

struct Adapter {
  Pairwise by = Pairwise::procrustes;
  double power = 0.5;  ///< of cca, as of a consensus

  friend bool operator==(const Adapter&, const Adapter&) = default;
};

/// How anchors are found, with the options of that way.
using Method = std::variant<Consensus, Param, ChosenRows, Adapter>;

[[nodiscard]] std::string_view to_string(const Method& method);
/// With the defaults of its options. Throws Error(Code::bad_argument) that lists the names.
[[nodiscard]] Method parse_method(std::string_view name);
[[nodiscard]] std::vector<std::string_view> method_names();

/// Rows of its mixtures are >= 0 and sum to 1.
[[nodiscard]] bool is_convex(const Method& method);
[[nodiscard]] bool is_adapter(const Method& method);
[[nodiscard]] bool is_adapter(const Method& method, Pairwise by);
/// How many of the largest weights of each anchor it keeps; none if all.
[[nodiscard]] std::optional<std::size_t> keep_of(const Method& method);

}  // namespace kedge
