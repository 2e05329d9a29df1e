// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/param.h>

#include <string>
#include <vector>

namespace kedge {

/// Loss history as JSON text, [[total, symnce, coverage, orthogonality, length], ...], and back, to the last bit.
[[nodiscard]] std::string history_to_json(const std::vector<Losses>& history);
/// Throws Error(Code::bad_file) for other text.
[[nodiscard]] std::vector<Losses> history_from_json(const std::string& text);

}  // namespace kedge
