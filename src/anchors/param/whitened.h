// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "anchors/param/objective.h"

#include <kedge/progress.h>
#include <kedge/space.h>
#include <kedge/whitening.h>

#include <span>

namespace kedge {

/// Reads the spaces once more and puts their whitened rows side by side into the backend's memory, block by block.
[[nodiscard]] WhitenedSpaces whiten_spaces(Backend& backend, std::span<const Space> spaces,
                                           std::span<const Whitening> whitenings, const Progress& progress);

}  // namespace kedge
