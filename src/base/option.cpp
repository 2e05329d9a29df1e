// SPDX-License-Identifier: Apache-2.0
#include "base/option.h"

#include <charconv>
#include <system_error>

namespace kedge {
namespace {

Option make_option(std::string_view name, std::string help, std::string_view type, decltype(Option::value) value) {
  Option option;
  option.name = name;
  option.help = std::move(help);
  option.type = type;
  option.value = std::move(value);
  return option;
}

}  // namespace

Option flag_option(std::string_view name, std::string help, bool& value) {
  return make_option(name, std::move(help), "", &value);
}

Option count_option(std::string_view name, std::string help, std::size_t& value, std::size_t least) {
  Option option = make_option(name, std::move(help), "N", &value);
  option.least = least;
  return option;
}

Option number_option(std::string_view name, std::string help, double& value) {
  return make_option(name, std::move(help), "X", &value);
}

Option text_option(std::string_view name, std::string help, std::string_view type, TextValue value,
                   std::vector<std::string_view> choices) {
  Option option = make_option(name, std::move(help), type, std::move(value));
  option.choices = std::move(choices);
  return option;
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

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace kedge
