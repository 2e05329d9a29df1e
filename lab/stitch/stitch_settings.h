// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/lab/stitch.h>

#include <string>

namespace kedge {

/// What measurements depend on beyond what they say themselves, as JSON. Inputs are known by a checksum of their shape
/// and of rows spread over them.
[[nodiscard]] std::string settings_of(const StitchData& data, const StitchOptions& options);

/// Throws Error(Code::bad_argument) that names what differs.
void require_same_settings(const std::string& known, const std::string& now);

}  // namespace kedge
