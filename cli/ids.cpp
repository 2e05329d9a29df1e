// SPDX-License-Identifier: Apache-2.0
#include "ids.h"

#include <fmt/format.h>

namespace kedge::cli {

void add_ids(Command& command, std::string& file, const std::string& what) {
  command
      .add("--ids", file,
           fmt::format("An id for each row of the files, {}: an .npy of integers, or a .txt with one id on each line",
                       what))
      .takes("FILE");
}

std::vector<std::int64_t> read_ids_of(const std::string& file) {
  return file.empty() ? std::vector<std::int64_t>() : read_ids(file);
}

void refuse_repeated(const RepeatedId& problem, const std::string& file) {
  if (file.empty()) throw problem;
  const IdPlaces places = find_id(file, problem.id());
  if (places.rows.empty()) throw problem;
  if (places.rows.size() == 1) {
    throw Error(
        Code::bad_argument,
        fmt::format("{}: the id '{}' of row {} belongs to another row as well, which was added before; give every "
                    "row an id of its own, and add each row once",
                    file, places.text, places.rows[0]));
  }
  throw Error(Code::bad_argument,
              fmt::format("{}: rows {} and {} have the same id '{}'; give every row an id of its own", file,
                          places.rows[0], places.rows[1], places.text));
}

}  // namespace kedge::cli
