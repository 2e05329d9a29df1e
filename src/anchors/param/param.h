// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <kedge/param.h>
#include <kedge/progress.h>
#include <kedge/space.h>
#include <kedge/whitening.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kedge {

/// What PARAM learns from.
struct ParamTask {
  std::span<const Space> spaces;
  std::span<const std::int64_t> support_ids;  ///< row numbers of the files
  std::size_t anchors = 0;
  std::uint64_t seed = 0;
  WhiteningOptions whitening;  ///< what was asked for; a checkpoint remembers it
  ShrinkageRule shrinkage_rule = ShrinkageRule::fixed;
};

struct ParamResult {
  Matrix mixture;
  std::vector<Losses> history;  ///< means by epoch
};

/// Learns the mixture in whitened coordinates; `whitenings` has one for each space. If an exception out of `progress`
/// stops it, it writes a checkpoint of the last step before the exception goes on; if a loss is not finite, the last
/// checkpoint stays as it is.
[[nodiscard]] ParamResult learn_mixture(Backend& backend, const ParamTask& task, std::vector<Whitening> whitenings,
                                        const Param& options, const Progress& progress);

}  // namespace kedge
