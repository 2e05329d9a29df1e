// SPDX-License-Identifier: Apache-2.0
#include "parquet.h"

#include "report.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <unistd.h>

#include <cstdio>

namespace kedge::cli {

bool is_parquet(const std::string& path) {
  return path.ends_with(".parquet") || path.find(".parquet#") != std::string::npos;
}

void become_parquet(std::vector<std::string> words) {
  const std::string program = find_program("kedge-parquet", "KEDGE_PARQUET");
  words.insert(words.begin(), program);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(nullptr);
  ::execvp(program.c_str(), arguments.data());
  throw Error(Code::failed,
              fmt::format("Parquet is read and written by kedge's Python package, whose program '{}' was not found; "
                          "pip install '.[arrow]' in kedge's folder, or save the column of vectors as .npy",
                          program));
}

}  // namespace kedge::cli
