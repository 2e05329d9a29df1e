// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace kedge::cli {

/// Makes FOLDER/report.html of the results in it with the program `kedge-report`: $KEDGE_REPORT, the one beside this
/// program, or the one on the path. Returns the page, or nothing after saying why there is none; results stay usable.
[[nodiscard]] std::string make_report(const std::string& folder);

}  // namespace kedge::cli
