// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kedge::cli {

/// An option, a flag or a positional argument while a command describes it. The last of several values counts.
class Argument {
 public:
  Argument(CLI::Option& option, std::string name, std::string help);

  Argument& required();
  Argument& takes(const std::string& type);  ///< what the help shows for the value, such as FILE
  Argument& help(const std::string& text);
  Argument& group(const std::string& title);         ///< the heading it stands under in the help
  Argument& shows_default();                         ///< the value it has now
  Argument& shows_default(const std::string& text);  ///< if the value cannot be printed
  Argument& one_of(std::vector<std::string_view> names);
  Argument& at_least_one();
  Argument& at_most(std::size_t most);  ///< number of values; at least one is needed
  Argument& only_once();                ///< a second value is a mistake

  [[nodiscard]] const std::string& name() const { return name_; }  ///< "-o,--out", or "bundle" without dashes
  [[nodiscard]] const std::string& text() const { return help_; }
  [[nodiscard]] const std::string& type() const { return type_; }  ///< empty for a flag
  [[nodiscard]] const std::vector<std::string_view>& choices() const { return choices_; }
  [[nodiscard]] CLI::Option& option() const { return *option_; }

 private:
  CLI::Option* option_;
  std::string name_, help_, type_;
  std::vector<std::string_view> choices_;
};

/// A command while it is described. What its arguments point at must outlive the command; `runs` may own it. Commands
/// use this and not CLI11, because a file that includes CLI11 takes half a minute to compile.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}

  /// An option if the name begins with dashes, "-o,--out"; otherwise a positional argument.
  Argument& add(const std::string& name, std::string& value, const std::string& help);
  Argument& add(const std::string& name, double& value, const std::string& help);
  /// Whole numbers of 0 or more; anything else is refused with a sentence.
  Argument& add(const std::string& name, std::size_t& value, const std::string& help);
  Argument& add(const std::string& name, unsigned& value, const std::string& help);
  Argument& add(const std::string& name, std::optional<std::size_t>& value, const std::string& help);  ///< 0: not set
  Argument& add_flag(const std::string& name, bool& value, const std::string& help);
  /// Comma separated.
  Argument& add_list(const std::string& name, std::vector<std::string>& values, const std::string& help);
  Argument& add_list(const std::string& name, std::vector<std::size_t>& values, const std::string& help);
  /// Given once for each value. With `commas`, also several at once.
  Argument& add_repeated(const std::string& name, std::vector<std::string>& values, const std::string& help,
                         bool commas = false);
  /// Given once or more, each time with one value or several, such as a shell's pattern makes. Everything up to the
  /// next option is a value.
  Argument& add_many(const std::string& name, std::vector<std::string>& values, const std::string& help);
  /// The value is handed to a function, which may refuse it with Error(Code::bad_argument).
  Argument& add_text(const std::string& name, const std::function<void(const std::string&)>& set,
                     const std::string& help);
  /// One that was added before, by its name with dashes.
  Argument& get(const std::string& name);
  void exclude_each_other(const std::string& name, const std::string& other);
  void hide();  ///< from the list of commands
  /// Sets what the command does once its arguments are read.
  void runs(std::function<void()> work) { work_ = std::move(work); }

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] std::string help() const;  ///< the sentence that says what it does
  [[nodiscard]] bool hidden() const { return hidden_; }
  [[nodiscard]] const std::deque<Argument>& arguments() const { return arguments_; }
  [[nodiscard]] const std::function<void()>& work() const { return work_; }
  [[nodiscard]] CLI::App& app() const { return *app_; }

 private:
  Argument& keep(CLI::Option& option, const std::string& name, const std::string& help);

  CLI::App* app_;
  std::deque<Argument> arguments_;
  std::function<void()> work_;
  bool hidden_ = false;
};

}  // namespace kedge::cli
