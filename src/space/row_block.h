// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/row_sketch.h"

#include <optional>
#include <span>

namespace kedge {

/// Rows [begin, end) of those that were looked up, which are found so much worse than the rest that it is not chance.
struct OddBlock {
  std::size_t begin = 0, end = 0;
  double contrast = 0;  ///< between the block and the rest, in standard errors
};

/// The oddest block of rows that follow each other, if there is one. `rows` are in the order of the file.
[[nodiscard]] std::optional<OddBlock> find_odd_block(std::span<const FoundRow> rows);

}  // namespace kedge
