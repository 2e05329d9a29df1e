// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/lab/stitch.h>

#include <string_view>

namespace kedge {

/// The results in the text of a results.json, which may be somebody else's. Throws Error(Code::bad_file).
[[nodiscard]] StitchResults parse_results(std::string_view text);

}  // namespace kedge
