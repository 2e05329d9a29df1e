// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/statistics.h"

#include <kedge/bundle.h>

namespace kedge {

/// How well the map of a space, made by mixture, meets the bundle's targets at support rows. A row is left out of the
/// mixture while it is scored, because an anchor resembles its own members in any space.
[[nodiscard]] MixtureFit mixture_fit(const Bundle& bundle, const RelativeMap& map, const Matrix64& support,
                                     const Statistics& statistics);

}  // namespace kedge
