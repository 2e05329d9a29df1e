// SPDX-License-Identifier: Apache-2.0
#include <kedge/options/option.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <type_traits>

namespace kedge {

Option flag_option(std::string_view name, std::string help, bool& value) {
  return {name, std::move(help), "", &value};
}

Option count_option(std::string_view name, std::string help, std::size_t& value, std::size_t least) {
  return {name, std::move(help), "N", &value, least};
}

Option count_option(std::string_view name, std::string help, std::optional<std::size_t>& value, std::size_t least) {
  return {name, std::move(help), "N", &value, least};
}

Option number_option(std::string_view name, std::string help, double& value) {
  return {name, std::move(help), "X", &value};
}

Option without_default(Option option) {
  option.shows_default = false;
  return option;
}

void append_group(std::vector<Option>& list, std::string_view group, std::vector<Option> options) {
  for (Option& option : options) {
    option.group = group;
    list.push_back(std::move(option));
  }
}

OptionValue value_of(const Option& option) {
  return std::visit(
      [&](const auto& value) -> OptionValue {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::optional<std::size_t>*>) {
          return value->value_or(0);
        } else if constexpr (std::is_pointer_v<Value>) {
          return *value;
        } else {
          std::string text = value.get();
          const std::optional<double> number = option.choices.empty() ? parse_number(text) : std::nullopt;
          return number ? OptionValue(*number) : OptionValue(std::move(text));
        }
      },
      option.value);
}

std::string keyword_of(const Option& option) {
  std::string name(option.name);
  std::ranges::replace(name, '-', '_');
  return name;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace kedge
