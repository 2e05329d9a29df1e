// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "console.h"

#include <kedge/lab.h>

#include <string>

namespace kedge::cli {

/// stitch_into() with progress on stderr.
[[nodiscard]] StitchResults stitch_aloud(const std::string& folder, const StitchData& data,
                                         const StitchOptions& options, bool fresh, const CommonOptions& common);

/// Means over the zero-shot pairs, by method.
[[nodiscard]] Json means_to_json(const StitchResults& results);

/// The same as lines of text.
[[nodiscard]] std::string text_summary(const StitchResults& results);

}  // namespace kedge::cli
