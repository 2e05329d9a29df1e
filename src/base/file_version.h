// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace kedge {

/// Whether the text can be a version of kedge, such as 0.1.0 or 1.0rc1; a file may claim anything.
[[nodiscard]] bool is_version(std::string_view text);

/// What is said of a file in a format that this kedge does not read, or an empty text where it does: `format` is
/// what the file claims, `newest` what is read, `written_by` the version that wrote it.
[[nodiscard]] std::string format_problem(std::string_view format, unsigned newest, std::string_view written_by);

}  // namespace kedge
