// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace kedge {

/// The version of this library, e.g. "0.1.0".
[[nodiscard]] std::string_view version();

}  // namespace kedge
