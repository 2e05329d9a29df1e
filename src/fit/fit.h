// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/statistics.h"

#include <kedge/fit.h>

#include <span>
#include <vector>

namespace kedge {

/// Throws what fit() would throw before it reads any row.
void require_fit(std::span<const Space> spaces, const FitOptions& options);

/// As the public fit(), for spaces whose statistics are known already, in the order of the spaces. It does not check
/// whether rows belong together, nor whether all options belong to the method.
[[nodiscard]] Bundle fit(std::span<const Space> spaces, std::vector<Statistics> statistics, const FitOptions& options,
                         const Progress& progress);

}  // namespace kedge
