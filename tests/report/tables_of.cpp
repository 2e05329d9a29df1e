// SPDX-License-Identifier: Apache-2.0
// Writes the tables.json of a folder's results.json, as whoever measures them does: results that are made up have
// nobody.
#include "results/tables_file.h"

#include <kedge/error.h>
#include <kedge/lab/results.h>

#include <fstream>
#include <iostream>
#include <string>

int main(int count, char** arguments) {
  try {
    const std::string folder = count == 2 ? arguments[1] : ".";
    std::ofstream(folder + "/tables.json") << kedge::tables_json(kedge::load_results(folder));
    return 0;
  } catch (const kedge::Error& problem) {
    std::cerr << problem.what() << "\n";
    return 1;
  }
}
