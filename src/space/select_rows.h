// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kedge {

/// `count` different rows, the first at random and each other the farthest from those before; 1 <= count <= rows.
[[nodiscard]] std::vector<std::size_t> farthest_rows(MatrixView<const float> rows, std::size_t count,
                                                     std::uint64_t seed);

}  // namespace kedge
