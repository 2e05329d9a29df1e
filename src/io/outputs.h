// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace kedge::io {

/// Whether a file is there whose content a result would destroy.
[[nodiscard]] bool holds_something(const std::string& path);
/// Throws the error of a file that is not `what`, such as "a bundle of kedge".
[[noreturn]] void refuse_to_replace(const std::string& path, std::string_view what);

}  // namespace kedge::io
