// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/backend.h"
#include "solve/consensus.h"

#include <kedge/consensus.h>
#include <kedge/progress.h>

#include <cstdint>
#include <vector>

namespace kedge {

/// Targets after refinement, and the contrastive loss on rows held out: before it, then after every epoch.
struct Refined {
  Matrix targets;
  std::vector<double> losses;
};

/// Throws Error(Code::bad_argument) for a single space or bad options.
void require_refinement(std::span<const Space> spaces, const ConsensusOptions& options);

/// Improves the targets of a consensus (support x anchors) by gradient: every space keeps regressing them by ridge, and
/// what moves are the targets, so that the same row of two spaces becomes easier to tell from all others. Ends with the
/// targets that did best on rows held out, which the ridge has not seen unless the support is nearly all rows.
/// Throws what require_refinement throws.
[[nodiscard]] Refined refine_targets(Backend& backend, const ConsensusTask& task, const Matrix& targets,
                                     const ConsensusOptions& options, std::uint64_t seed, const Progress& progress);

}  // namespace kedge
