// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "console.h"

#include <string>

namespace kedge::cli {

/// Throws Error(Code::failed) if there can be no such folder.
void make_folder(const std::string& folder);

/// Runs the protocol, saves the results into the folder after every run and says how it goes. Results that are there
/// already are kept unless `fresh`.
[[nodiscard]] StitchResults stitch_into(const std::string& folder, const StitchData& data, const StitchOptions& options,
                                        bool fresh, const CommonOptions& common);

/// Means over the zero-shot pairs, by method.
[[nodiscard]] Json means_to_json(const StitchResults& results);

/// The same as lines of text.
[[nodiscard]] std::string text_summary(const StitchResults& results);

}  // namespace kedge::cli
