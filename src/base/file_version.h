// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace kedge {

/// Whether the text can be a version of kedge, such as 0.1.0 or 1.0rc1; a file may claim anything.
[[nodiscard]] bool is_version(std::string_view text);

/// Why this kedge does not read a file of that format, or an empty text if it does. `format` is what the file claims,
/// `newest` the newest format that is read, `written_by` the version that wrote the file.
[[nodiscard]] std::string format_problem(std::string_view format, unsigned newest, std::string_view written_by);

}  // namespace kedge
