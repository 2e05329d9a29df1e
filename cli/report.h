// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace kedge::cli {

/// A program of the Python package: what the environment variable says, the one beside this program, or the one on the
/// path.
[[nodiscard]] std::string find_program(const std::string& name, const char* variable);

/// Makes FOLDER/report.html of the results in it with the program `kedge-report`. Returns the page, or nothing after
/// saying why there is none; results stay usable.
[[nodiscard]] std::string make_report(const std::string& folder);

}  // namespace kedge::cli
