// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command.h"

#include <kedge/draw.h>
#include <kedge/error.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kedge::cli {

/// Adds --ids; the text says what it does besides giving every row an id.
void add_ids(Command& command, std::string& file, const std::string& what);
/// The ids in the file of --ids; none if it was not given.
[[nodiscard]] std::vector<std::int64_t> read_ids_of(const std::string& file);
/// Throws Error(Code::bad_argument) with the line of the id in the file of --ids, and how it is written there.
[[noreturn]] void refuse_repeated(const RepeatedId& problem, const std::string& file);

}  // namespace kedge::cli
