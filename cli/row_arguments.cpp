// SPDX-License-Identifier: Apache-2.0
#include "row_arguments.h"

#include "console.h"

#include <fmt/format.h>

#include <utility>

namespace kedge::cli {

void RowArguments::add_to(Command& command, const std::string& what, const std::string& name) {
  command.add(name, range, what).takes("FIRST:END");
  command
      .add(name + "-file", file,
           "Those rows by their numbers: an .npy of integers, or of booleans with one for each row of the files")
      .takes("FILE");
  command.exclude_each_other(name, name + "-file");
}

void RowArguments::require_range(const std::string& which) const {
  if (file.empty()) return;
  throw Error(Code::bad_argument,
              fmt::format("the rows {} can only be given as a range; give --rows FIRST:END", which));
}

RowIds RowArguments::ids() const {
  return file.empty() ? RowIds() : read_row_ids(file);
}

Space RowArguments::open(const std::string& name, std::shared_ptr<const RowSource> source) const {
  if (!file.empty()) return {name, std::move(source), ids()};
  return {name, std::move(source), parse_rows(range)};
}

Space RowArguments::open(const std::string& space) const {
  const Space whole = open_space(space);
  return file.empty() ? whole.with_rows(parse_rows(range)) : whole.with_rows(ids());
}

}  // namespace kedge::cli
