// SPDX-License-Identifier: Apache-2.0
#include "command.h"

#include "base/wording.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace kedge::cli {
namespace {

/// CLI11 alone would let -3 wrap round, and clamp a number that is too large.
std::string count_problem(const std::string& text) {
  std::uint64_t value = 0;
  const char* last = text.data() + text.size();
  const auto [end, problem] = std::from_chars(text.data(), last, value);
  if (problem == std::errc() && end == last) return {};
  const bool large = problem == std::errc::result_out_of_range && end == last;
  return "'" + text + (large ? "' is too large" : "' is not a whole number of 0 or more");
}

const CLI::Validator& count() {
  static const CLI::Validator validator(count_problem, "", "count");
  return validator;
}

}  // namespace

Argument::Argument(CLI::Option& option, std::string name, std::string help)
    : option_(&option), name_(std::move(name)), help_(std::move(help)) {}

Argument& Argument::required() {
  option_->required();
  return *this;
}

Argument& Argument::takes(const std::string& type) {
  type_ = type;
  option_->type_name(type);
  return *this;
}

Argument& Argument::help(const std::string& text) {
  help_ = text;
  option_->description(text);
  return *this;
}

Argument& Argument::group(const std::string& title) {
  option_->group(title);
  return *this;
}

Argument& Argument::shows_default() {
  option_->capture_default_str();
  return *this;
}

Argument& Argument::shows_default(const std::string& text) {
  option_->default_str(text);
  return *this;
}

Argument& Argument::one_of(std::vector<std::string_view> names) {
  choices_ = std::move(names);
  const std::vector<std::string> known(choices_.begin(), choices_.end());
  const CLI::IsMember member(known);
  const auto problem = [member, known](const std::string& text) {
    std::string word = text;
    const std::string says = member(word);
    return says.empty() ? says : says + did_you_mean(word, known);
  };
  option_->check(CLI::Validator(problem, member.get_description(), "name"));
  return *this;
}

Argument& Argument::at_least_one() {
  const auto problem = [](const std::string& text) {
    const bool zero = text.find_first_not_of('0') == std::string::npos;
    return std::string(zero ? "0 is too few; give 1 or more" : "");
  };
  option_->check(CLI::Validator(problem, "", "positive count"));
  return *this;
}

Argument& Argument::at_most(std::size_t most) {
  option_->check(CLI::Range(std::size_t{1}, most));
  return *this;
}

Argument& Argument::only_once() {
  option_->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  return *this;
}

Argument& Command::keep(CLI::Option& option, const std::string& name, const std::string& help) {
  return arguments_.emplace_back(option, name, help);
}

Argument& Command::add(const std::string& name, std::string& value, const std::string& help) {
  return keep(*app_->add_option(name, value, help), name, help);
}

Argument& Command::add(const std::string& name, double& value, const std::string& help) {
  return keep(*app_->add_option(name, value, help), name, help);
}

Argument& Command::add(const std::string& name, std::size_t& value, const std::string& help) {
  return keep(*app_->add_option(name, value, help)->check(count()), name, help);
}

Argument& Command::add(const std::string& name, unsigned& value, const std::string& help) {
  return keep(*app_->add_option(name, value, help)->check(count()), name, help);
}

Argument& Command::add(const std::string& name, std::optional<std::size_t>& value, const std::string& help) {
  const auto set = [&value](std::size_t given) { value = given == 0 ? std::nullopt : std::optional(given); };
  return keep(*app_->add_option_function<std::size_t>(name, set, help)->check(count()), name, help);
}

Argument& Command::add_flag(const std::string& name, bool& value, const std::string& help) {
  return keep(*app_->add_flag(name, value, help), name, help);
}

Argument& Command::add_list(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  return keep(*app_->add_option(name, values, help)->delimiter(',')->take_all(), name, help).takes("LIST");
}

Argument& Command::add_list(const std::string& name, std::vector<std::size_t>& values, const std::string& help) {
  CLI::Option* option = app_->add_option(name, values, help)->delimiter(',')->take_all()->check(count());
  return keep(*option, name, help).takes("LIST");
}

Argument& Command::add_repeated(const std::string& name, std::vector<std::string>& values, const std::string& help,
                                bool commas) {
  CLI::Option* option = app_->add_option(name, values, help)->take_all()->allow_extra_args(false);
  if (commas) option->delimiter(',');
  return keep(*option, name, help);
}

Argument& Command::add_many(const std::string& name, std::vector<std::string>& values, const std::string& help) {
  return keep(*app_->add_option(name, values, help)->take_all(), name, help);
}

Argument& Command::add_text(const std::string& name, const std::function<void(const std::string&)>& set,
                            const std::string& help) {
  return keep(*app_->add_option_function<std::string>(name, set, help), name, help);
}

Argument& Command::get(const std::string& name) {
  const CLI::Option* wanted = app_->get_option(name);
  const auto found = std::ranges::find_if(arguments_, [&](const Argument& known) { return &known.option() == wanted; });
  if (found == arguments_.end()) throw std::logic_error("the command did not add " + name);
  return *found;
}

void Command::exclude_each_other(const std::string& name, const std::string& other) {
  app_->get_option(name)->excludes(app_->get_option(other));
}

void Command::hide() {
  hidden_ = true;
  app_->group("");
}

const std::string& Command::name() const {
  return app_->get_name();
}

std::string Command::help() const {
  return app_->get_description();
}

}  // namespace kedge::cli
