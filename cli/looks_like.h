// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "console.h"

#include <string>
#include <vector>

namespace kedge::cli {

/// Prints which of the known models the rows of a file look like. Each of `known` is a file of rows or of moments, with
/// a name before it if there is a '='.
void say_what_it_looks_like(const CommonOptions& common, const std::string& file,
                            const std::vector<std::string>& known);

}  // namespace kedge::cli
