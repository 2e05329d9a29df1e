// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/option.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kedge {

[[nodiscard]] Option flag_option(std::string_view name, std::string help, bool& value);
[[nodiscard]] Option count_option(std::string_view name, std::string help, std::size_t& value, std::size_t least = 0);
[[nodiscard]] Option number_option(std::string_view name, std::string help, double& value);
[[nodiscard]] Option text_option(std::string_view name, std::string help, std::string_view type, TextValue value,
                                 std::vector<std::string_view> choices = {});

/// One of the names of an enumeration.
template <class Enum>
[[nodiscard]] Option name_option(std::string_view name, std::string help, Enum& value, Enum (*parse)(std::string_view),
                                 std::vector<std::string_view> names) {
  return text_option(name, std::move(help), "NAME",
                     {[&value] { return std::string(to_string(value)); },
                      [&value, parse](const std::string& text) { value = parse(text); }},
                     std::move(names));
}

/// The help says what happens where it is not given.
[[nodiscard]] Option without_default(Option option);

/// Puts options at the end of a list, as a group.
void append_group(std::vector<Option>& list, std::string_view group, std::vector<Option> options);

/// None for a text that is not a number from its first to its last character.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

}  // namespace kedge
