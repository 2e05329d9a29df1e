// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stitch/stitch_plan.h"

namespace kedge {

/// How many floating-point operations a run takes, roughly; only the ratio between two runs means anything.
[[nodiscard]] double run_cost(const PlannedRun& run, const StitchData& data, const StitchOptions& options);

}  // namespace kedge
