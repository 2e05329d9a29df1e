// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/lab/stitch.h>

#include <string>

namespace kedge {

/// The text of tables.json: the finished tables, which the report shows as they are.
[[nodiscard]] std::string tables_json(const StitchResults& results);

}  // namespace kedge
