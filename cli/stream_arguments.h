// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command.h"
#include "console.h"
#include "row_arguments.h"

#include <kedge/relative_map.h>

#include <string>
#include <vector>

namespace kedge::cli {

/// What every command that takes a file's rows through a map is told.
struct StreamArguments {
  std::string input, output;
  RowArguments rows;
  std::string device{to_string(Device::cpu)}, precision{to_string(Precision::fp32)};
  bool normalize = false, in_place = false;

  /// The rows are there to be mapped, or whatever is done with them.
  void add_to(Command& command, const std::string& done, const std::string& where = "Where to compute");
  /// Hands a Parquet file over to Python and does not return; `words` are the command and what only it knows.
  void hand_over_parquet(std::vector<std::string> words, const CommonOptions& common) const;
  /// Throws Error(Code::failed) where the device is missing, Error(Code::bad_argument) where the result would replace
  /// the bundle or the file of rows.
  [[nodiscard]] StreamOptions options(const std::string& bundle) const;
  /// The rows that were asked for.
  [[nodiscard]] Space open(const std::string& space) const;
};

}  // namespace kedge::cli
