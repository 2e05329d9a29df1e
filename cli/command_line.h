// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command.h"

#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace kedge::cli {

/// Thrown for wrong arguments: a sentence, and a line that says where to read on.
class WrongUsage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The command line of kedge.
class CommandLine {
 public:
  /// With every command of kedge.
  CommandLine();
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  [[nodiscard]] Command& add(const std::string& name, const std::string& help);
  [[nodiscard]] const std::deque<Command>& commands() const { return commands_; }

  /// Parses the arguments and returns what they ask for: to run a command or to print its help. Throws WrongUsage, and
  /// Error(Code::bad_file) for a damaged config file.
  [[nodiscard]] std::function<void()> parse(int argc, const char* const* argv);

 private:
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] std::string called(int argc, const char* const* argv) const;

  std::unique_ptr<CLI::App> app_;
  std::deque<Command> commands_;
};

}  // namespace kedge::cli
