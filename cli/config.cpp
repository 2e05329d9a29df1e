// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <istream>
#include <sstream>
#include <utility>

namespace kedge::cli {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 20;  // bytes; a long config file has a few thousand

/// Reads all of the input, but no more than kLargest: it may be a device that never ends.
std::string read(std::istream& input) {
  std::string text;
  std::array<char, 4096> block{};
  while (text.size() <= kLargest && input) {
    input.read(block.data(), block.size());
    text.append(block.data(), static_cast<std::size_t>(input.gcount()));
  }
  if (text.size() > kLargest) {
    throw CLI::FileError(fmt::format("the config file is larger than {} bytes; is it the right file?", kLargest));
  }
  if (text.find('\0') != std::string::npos) {
    throw CLI::FileError("the config file contains a zero byte, so it is not text; is it the right file?");
  }
  return text;
}

/// Refuses sections within sections: they have no meaning here, CLI11's time and memory grow with the square of their
/// depth, and it silently drops names that are nested too deep.
void refuse_nesting(std::istream& text) {
  constexpr std::ptrdiff_t kDeepest = 100;
  for (std::string line; std::getline(text, line);) {
    CLI::detail::trim(line);
    const bool section = line.size() > 2 && line.front() == '[' && line.back() == ']';
    const std::string name = section ? line : line.substr(0, line.find('='));
    if (std::ranges::count(name, '.') > (section ? 0 : kDeepest)) throw CLI::ConfigError::Extras(line);
  }
}

}  // namespace

CommandConfig::CommandConfig(std::string command, std::vector<std::string> commands)
    : command_(std::move(command)), commands_(std::move(commands)) {}

std::vector<CLI::ConfigItem> CommandConfig::from_config(std::istream& input) const {
  std::istringstream text(read(input));
  refuse_nesting(text);
  text.clear();
  text.seekg(0);
  std::vector<CLI::ConfigItem> kept;
  for (CLI::ConfigItem& item : CLI::ConfigBase::from_config(text)) {
    if (item.name == "++" || item.name == "--") continue;  // mark the begin and end of a section
    if (item.parents.empty() || item.parents.front() == "default") item.parents = {command_};
    if (std::ranges::find(commands_, item.parents.front()) == commands_.end()) {
      throw CLI::ConfigError::Extras("[" + item.parents.front() + "]");
    }
    // CLI11 reads the first value of an option that takes one, even if there is none.
    if (item.inputs.empty())
      throw CLI::ValidationError(item.fullname(), "it is an empty list; give a value or leave it out");
    if (item.parents.front() == command_) kept.push_back(std::move(item));
  }
  return kept;
}

}  // namespace kedge::cli
