// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command.h"

#include <kedge/relative_map.h>

#include <string>
#include <vector>

namespace kedge::cli {

/// What every command that takes a file's rows through a map is told about how to do it.
struct StreamArguments {
  std::string device{to_string(Device::cpu)}, precision{to_string(Precision::fp32)};
  bool normalize = false, in_place = false;

  void add_to(Command& command, const std::string& where = "Where to compute");
  /// Throws Error(Code::failed) where the device is missing.
  [[nodiscard]] StreamOptions options() const;
  /// The same as words of a command line.
  [[nodiscard]] std::vector<std::string> words() const;
};

}  // namespace kedge::cli
