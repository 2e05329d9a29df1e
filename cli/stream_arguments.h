// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command.h"
#include "console.h"
#include "row_arguments.h"

#include <kedge/relative_map.h>

#include <string>
#include <vector>

namespace kedge::cli {

/// The arguments of every command that maps the rows of a file.
struct StreamArguments {
  std::string input, output;
  RowArguments rows;
  std::string device{to_string(Device::cpu)}, precision{to_string(Precision::fp32)};
  bool normalize = false, in_place = false;

  /// `done` says in the help what is done with the rows.
  void add_to(Command& command, const std::string& done, const std::string& where = "Where to compute");
  /// Hands a Parquet file over to Python and does not return; `words` are the command and its own options.
  void hand_over_parquet(std::vector<std::string> words, const CommonOptions& common) const;
  /// Throws Error(Code::failed) if the device is missing, Error(Code::bad_argument) if the result would replace the
  /// bundle or the file of rows.
  [[nodiscard]] StreamOptions options(const std::string& bundle) const;
  /// The rows that were asked for.
  [[nodiscard]] Space open(const std::string& space) const;
};

}  // namespace kedge::cli
