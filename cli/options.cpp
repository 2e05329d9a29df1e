// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <fmt/format.h>

#include <variant>

namespace kedge::cli {
namespace {

/// Adds one option; CLI11 wants another call for each type of value.
class Adder {
 public:
  Adder(CLI::App& command, const Option& option)
      : command_(command), option_(option), name_(fmt::format("--{}", option.name)) {}

  CLI::Option* operator()(bool* value) const { return command_.add_flag(name_, *value, option_.help); }
  CLI::Option* operator()(std::size_t* value) const { return plain(*value)->check(count()); }
  CLI::Option* operator()(double* value) const { return plain(*value); }
  CLI::Option* operator()(std::string* value) const { return plain(*value); }
  CLI::Option* operator()(std::vector<std::size_t>* value) const {
    return plain(*value)->description(option_.help + ", comma separated")->delimiter(',')->take_all()->check(count());
  }
  CLI::Option* operator()(const TextValue& value) const {
    CLI::Option* added = command_.add_option_function<std::string>(name_, value.set, option_.help);
    if (!option_.choices.empty()) added->check(CLI::IsMember(option_.choices));
    if (option_.shows_default) added->default_str(value.get());
    return added;
  }

 private:
  template <class T>
  CLI::Option* plain(T& value) const {
    CLI::Option* added = command_.add_option(name_, value, option_.help);
    return option_.shows_default ? added->capture_default_str() : added;
  }
  [[nodiscard]] const CLI::Validator& count() const { return option_.least == 0 ? kCount : kPositiveCount; }

  CLI::App& command_;
  const Option& option_;
  std::string name_;
};

}  // namespace

void add_options(CLI::App& command, const std::vector<Option>& options, const GroupTitles& titles,
                 const std::set<std::string_view>& without) {
  for (const Option& option : options) {
    if (without.contains(option.name)) continue;
    CLI::Option* added = std::visit(Adder(command, option), option.value);
    if (!option.type.empty()) added->type_name(std::string(option.type));
    if (const auto title = titles.find(option.group); title != titles.end()) added->group(title->second);
  }
}

void add_support_ids(CLI::App& command, std::string& file) {
  command.add_option("--support-ids", file, "The support rows themselves: an .npy of int64 row numbers of the files")
      ->excludes(command.get_option("--support"))
      ->type_name("FILE");
}

std::vector<std::int64_t> read_support_ids(const std::string& file) {
  if (file.empty()) return {};
  std::vector<std::int64_t> ids = read_integers(file);
  if (ids.empty()) throw Error(Code::bad_file, fmt::format("{}: it holds no row numbers", file));
  return ids;
}

}  // namespace kedge::cli
