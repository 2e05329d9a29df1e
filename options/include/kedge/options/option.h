// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kedge {

/// A value that is read and written as text: a name, or a number where a name will do as well.
struct TextValue {
  std::function<std::string()> get;
  std::function<void(const std::string&)> set;  ///< throws Error(Code::bad_argument) that says what can be given
};

/// One option as its users know it. The command line, the Python package and the documents of both are made from lists
/// of these, which options_of() gives for every struct of options.
struct Option {
  std::string_view name;  ///< as on the command line, without the leading dashes; Python writes '_' for '-'
  std::string help;
  std::string_view type;  ///< what is given: N, X, NAME, X|NAME, auto|X, FILE, LIST; empty for a flag
  /// Where its value is, inside the struct of options the list was made for. Of a number that need not be set, users
  /// write 0 for that.
  std::variant<bool*, std::size_t*, std::optional<std::size_t>*, double*, std::string*, std::vector<std::size_t>*,
               TextValue>
      value;
  std::size_t least = 0;                       ///< of a whole number
  std::vector<std::string_view> choices = {};  ///< of a NAME
  std::string_view group = {};  ///< what it belongs to, e.g. "param" or "consensus" for a method; or none
  bool shows_default = true;    ///< otherwise the help says what happens if nothing is given
};

[[nodiscard]] Option flag_option(std::string_view name, std::string help, bool& value);
[[nodiscard]] Option count_option(std::string_view name, std::string help, std::size_t& value, std::size_t least = 0);
[[nodiscard]] Option count_option(std::string_view name, std::string help, std::optional<std::size_t>& value,
                                  std::size_t least = 0);
[[nodiscard]] Option number_option(std::string_view name, std::string help, double& value);

/// One of the names of an enumeration, or of a method.
template <class Named>
[[nodiscard]] Option name_option(std::string_view name, std::string help, Named& value,
                                 Named (*parse)(std::string_view), std::vector<std::string_view> names) {
  const TextValue text{[&value] { return std::string(to_string(value)); },
                       [&value, parse](const std::string& given) { value = parse(given); }};
  return {name, std::move(help), "NAME", text, 0, std::move(names)};
}

/// The help says what happens if it is not given.
[[nodiscard]] Option without_default(Option option);

/// Puts options at the end of a list, as a group.
void append_group(std::vector<Option>& list, std::string_view group, std::vector<Option> options);

using OptionValue = std::variant<bool, std::size_t, double, std::string, std::vector<std::size_t>>;
/// What an option holds; a text that is a number is one, unless it is among the choices.
[[nodiscard]] OptionValue value_of(const Option& option);
/// The name as Python and files write it, with '_' for '-'.
[[nodiscard]] std::string keyword_of(const Option& option);

/// None for a text that is not a number from its first to its last character.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

}  // namespace kedge
