// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <fmt/format.h>

#include <variant>

namespace kedge::cli {
namespace {

/// Adds one option, by the type of its value.
class Adder {
 public:
  Adder(Command& command, const Option& option)
      : command_(command), option_(option), name_(fmt::format("--{}", option.name)) {}

  Argument& operator()(bool* value) const { return command_.add_flag(name_, *value, option_.help); }
  Argument& operator()(std::size_t* value) const {
    return count(with_default(command_.add(name_, *value, option_.help)));
  }
  Argument& operator()(std::optional<std::size_t>* value) const {
    Argument& added = count(command_.add(name_, *value, option_.help));
    return option_.shows_default ? added.shows_default(fmt::format("{}", value->value_or(0))) : added;
  }
  Argument& operator()(double* value) const { return with_default(command_.add(name_, *value, option_.help)); }
  Argument& operator()(std::string* value) const { return with_default(command_.add(name_, *value, option_.help)); }
  Argument& operator()(std::vector<std::size_t>* value) const {
    return count(with_default(command_.add_list(name_, *value, option_.help + ", comma separated")));
  }
  Argument& operator()(const TextValue& value) const {
    Argument& added = command_.add_text(name_, value.set, option_.help);
    if (!option_.choices.empty()) added.one_of(option_.choices);
    return option_.shows_default ? added.shows_default(value.get()) : added;
  }

 private:
  [[nodiscard]] Argument& with_default(Argument& added) const {
    return option_.shows_default ? added.shows_default() : added;
  }
  [[nodiscard]] Argument& count(Argument& added) const { return option_.least == 0 ? added : added.at_least_one(); }

  Command& command_;
  const Option& option_;
  std::string name_;
};

}  // namespace

void add_options(Command& command, const std::vector<Option>& options, const GroupTitles& titles,
                 const std::set<std::string_view>& without) {
  for (const Option& option : options) {
    if (without.contains(option.name)) continue;
    Argument& added = std::visit(Adder(command, option), option.value);
    if (!option.type.empty()) added.takes(std::string(option.type));
    if (const auto title = titles.find(option.group); title != titles.end()) added.group(title->second);
  }
}

void add_moments_files(Command& command, std::vector<std::string>& files, const std::string& help) {
  command.add_many("--moments", files, help).takes("FILE");
}

Moments load_all_moments(const std::vector<std::string>& files) {
  Moments all;
  for (const std::string& file : files) {
    const Moments part = load_moments(file);
    try {
      all.merge(part);
    } catch (const Error& problem) {
      throw Error(problem.code(), fmt::format("{}: {}", file, problem.text()));
    }
  }
  return all;
}

void add_support_ids(Command& command, std::string& file) {
  command.add("--support-ids", file, "Which rows to use as the support: an .npy of int64 row numbers in the files")
      .takes("FILE");
  command.exclude_each_other("--support-ids", "--support");
}

std::vector<std::int64_t> read_support_ids(const std::string& file) {
  if (file.empty()) return {};
  std::vector<std::int64_t> ids = read_integers(file);
  if (ids.empty()) throw Error(Code::bad_file, fmt::format("{}: it holds no row numbers", file));
  return ids;
}

}  // namespace kedge::cli
