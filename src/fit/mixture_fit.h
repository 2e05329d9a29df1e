// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/statistics.h"

#include <kedge/bundle.h>

namespace kedge {

/// How well the map of a space, made by mixture, meets the targets of the anchors at support rows. A row is left out of
/// the mixture while it is scored, because an anchor resembles its own members in any space.
[[nodiscard]] MixtureFit mixture_fit(const LearnedAnchors& anchors, bool convex, const RelativeMap& map,
                                     const Matrix64& support, const Statistics& statistics);

}  // namespace kedge
