// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/param.h>

#include <string>
#include <vector>

namespace kedge {

/// Throws Error(Code::bad_argument) that names the option, what it was and what it may be.
void require_valid(const Param& options);

/// All options as JSON text, and back. Throws Error(Code::bad_file) for other text.
[[nodiscard]] std::string to_json(const Param& options);
[[nodiscard]] Param param_options_from_json(const std::string& text);

/// A history of losses as JSON text, [[total, symnce, coverage, orthogonality, length], ...], and back, bit by bit.
[[nodiscard]] std::string history_to_json(const std::vector<Losses>& history);
/// Throws Error(Code::bad_file) for other text.
[[nodiscard]] std::vector<Losses> history_from_json(const std::string& text);

}  // namespace kedge
