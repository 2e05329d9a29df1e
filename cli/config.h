// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <string>
#include <utility>
#include <vector>

namespace kedge::cli {

/// A TOML file for one command. Plain entries belong to the command that was called, and so do those of a section with
/// its name; sections of other commands are left alone, so that one file can serve several.
class CommandConfig : public CLI::ConfigBase {
 public:
  explicit CommandConfig(std::string command) : command_(std::move(command)) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> kept;
    for (CLI::ConfigItem& item : CLI::ConfigBase::from_config(input)) {
      if (item.name == "++" || item.name == "--") continue;  // marks of a section's begin and end
      if (item.parents.empty() || item.parents.front() == "default") item.parents = {command_};
      if (item.parents.front() == command_) kept.push_back(std::move(item));
    }
    return kept;
  }

 private:
  std::string command_;
};

}  // namespace kedge::cli
