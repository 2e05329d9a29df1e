// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <istream>
#include <string>
#include <utility>
#include <vector>

namespace kedge::cli {

/// A TOML file for one command. Plain entries belong to the command that was called, and so do those of a section with
/// its name; sections of other commands are left alone, so that one file can serve several.
class CommandConfig : public CLI::ConfigBase {
 public:
  CommandConfig(std::string command, std::vector<std::string> commands)
      : command_(std::move(command)), commands_(std::move(commands)) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> kept;
    for (CLI::ConfigItem& item : CLI::ConfigBase::from_config(input)) {
      if (item.name == "++" || item.name == "--") continue;  // marks of a section's begin and end
      if (item.parents.empty() || item.parents.front() == "default") item.parents = {command_};
      if (std::ranges::find(commands_, item.parents.front()) == commands_.end()) {
        throw CLI::ConfigError::Extras("[" + item.parents.front() + "]");
      }
      if (item.parents.front() == command_) kept.push_back(std::move(item));
    }
    return kept;
  }

 private:
  std::string command_;
  std::vector<std::string> commands_;
};

}  // namespace kedge::cli
