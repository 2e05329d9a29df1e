// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command.h"

#include <kedge/space.h>

#include <memory>
#include <string>

namespace kedge::cli {

/// Which rows of its files a command takes: a range, or a file of row numbers or of booleans.
struct RowArguments {
  std::string range, file;

  /// Adds --rows and --rows-file, or another name; `what` says in their help what is done with the rows.
  void add_to(Command& command, const std::string& what, const std::string& name = "--rows");
  [[nodiscard]] bool given() const { return !range.empty() || !file.empty(); }
  /// Throws Error(Code::bad_argument) if a file was given; `which` names the rows that need a range.
  void require_range(const std::string& which) const;
  /// None if a range was given, or nothing.
  [[nodiscard]] RowIds ids() const;
  /// These rows of a source.
  [[nodiscard]] Space open(const std::string& name, std::shared_ptr<const RowSource> source) const;
  /// The same for "NAME=FILE".
  [[nodiscard]] Space open(const std::string& space) const;
};

}  // namespace kedge::cli
