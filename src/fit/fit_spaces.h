// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/statistics.h"

#include <kedge/fit.h>

#include <span>
#include <vector>

namespace kedge {

/// Of one space's rows; its whitening too where asked for.
[[nodiscard]] Statistics read_statistics(const Space& space, const WhiteningOptions& options, ShrinkageRule rule,
                                         bool whitened, Device device, const Progress& progress);

/// As the public fit(), for spaces whose statistics are known already, in the order of the spaces. Rows are not
/// checked.
[[nodiscard]] Bundle fit(std::span<const Space> spaces, std::vector<Statistics> statistics, const FitOptions& options,
                         const Progress& progress);

/// Throws what fit() would throw before it reads any row.
void require_fit(std::span<const Space> spaces, const FitOptions& options);

}  // namespace kedge
