// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace kedge::io {

/// A path may name one tensor of a file, as in weights.safetensors#layer. Both names may themselves hold a '#'.
inline std::pair<std::string, std::string> split_tensor(const std::string& path) {
  constexpr std::string_view kExtension = ".safetensors";
  const std::size_t dot = path.ends_with(kExtension) ? std::string::npos : path.find(std::string(kExtension) + '#');
  if (dot == std::string::npos) return {path, ""};
  return {path.substr(0, dot + kExtension.size()), path.substr(dot + kExtension.size() + 1)};
}

}  // namespace kedge::io
