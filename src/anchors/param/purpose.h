// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "anchors/param/param.h"

#include <string>

namespace kedge {

/// Everything that must be the same for a checkpoint to be continued; more epochs may follow.
[[nodiscard]] std::string purpose_of(const ParamTask& task, const Param& options, const Backend& backend);

}  // namespace kedge
