// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kedge {

/// Limits on a text that may be hostile. The library builds any text in memory, but it copies, compares and writes by
/// recursion, and it searches the members of an ordered object from the front.
struct JsonLimits {
  std::size_t deepest = 8;              ///< lists and objects within each other
  std::size_t most_members = SIZE_MAX;  ///< of one object
  std::size_t longest_list = SIZE_MAX;
};

/// What is wrong with the text, as the end of "it ...": not JSON, a name twice in one object, more than the limits
/// allow. Empty if all is well. Keeps nothing in memory but the names in the objects that are open.
[[nodiscard]] std::string json_problem(std::string_view text, const JsonLimits& limits);

/// The text as JSON; throws Error(Code::bad_file) whose sentence begins with `what` and ends in the problem.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

}  // namespace kedge
