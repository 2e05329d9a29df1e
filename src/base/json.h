// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace kedge {

/// How much a text that may be hostile can ask of who reads it: the library builds any text in memory, but copies,
/// compares and writes by recursion, and keeps what has an order in lists that it searches from the front.
struct JsonLimits {
  std::size_t deepest = 8;              ///< lists and objects within each other
  std::size_t most_members = SIZE_MAX;  ///< of one object
  std::size_t longest_list = SIZE_MAX;
};

/// What is wrong with the text, as the end of "it ...": not JSON, a name twice in one object, more than the limits
/// allow. Empty where all is well. Builds nothing but the names of the objects it is in.
[[nodiscard]] std::string json_problem(std::string_view text, const JsonLimits& limits);

/// The text as JSON; throws Error(Code::bad_file) whose sentence begins with `what` and ends in the problem.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

}  // namespace kedge
