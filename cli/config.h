// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace kedge::cli {

/// A TOML file for one command. Plain entries belong to the command that was called, and so do those of a section with
/// its name; sections of other commands are left alone, so that one file can serve several.
class CommandConfig : public CLI::ConfigBase {
 public:
  CommandConfig(std::string command, std::vector<std::string> commands);

  /// Throws CLI::ParseError for text that is not such a file.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;

 private:
  std::string command_;
  std::vector<std::string> commands_;
};

}  // namespace kedge::cli
