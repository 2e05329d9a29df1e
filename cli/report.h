// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace kedge::cli {

/// Path of a program of the Python package: from the environment variable, beside this program, or on the PATH.
[[nodiscard]] std::string find_program(const std::string& name, const char* variable);

/// Makes FOLDER/report.html from the results in it with the program `kedge-report`. Returns the page, or nothing after
/// printing why there is none; the results stay usable.
[[nodiscard]] std::string make_report(const std::string& folder);

}  // namespace kedge::cli
