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

/// Arguments that cannot be obeyed, as a sentence and a line that says where to read on.
class WrongUsage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// All that kedge takes on its command line.
class CommandLine {
 public:
  /// With every command of kedge.
  CommandLine();
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  [[nodiscard]] Command& add(const std::string& name, const std::string& help);
  [[nodiscard]] const std::deque<Command>& commands() const { return commands_; }

  /// What the arguments ask for, ready to be done: a command, or printing its help. Throws WrongUsage, and
  /// Error(Code::bad_file) for a config file that is none.
  [[nodiscard]] std::function<void()> parse(int argc, const char* const* argv);

 private:
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] std::string called(int argc, const char* const* argv) const;

  std::unique_ptr<CLI::App> app_;
  std::deque<Command> commands_;
};

}  // namespace kedge::cli
