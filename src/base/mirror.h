// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

namespace kedge {

/// Calls copy(row, column) for every place below the diagonal of a square matrix. Tile by tile, as a walk down whole
/// columns would miss the cache with every value.
template <class Copy>
void for_lower_triangle(std::size_t dim, const Copy& copy) {
  constexpr std::size_t kTile = 32;
  for (std::size_t top = 0; top < dim; top += kTile) {
    for (std::size_t left = 0; left <= top; left += kTile) {
      for (std::size_t row = top; row < std::min(top + kTile, dim); ++row) {
        for (std::size_t column = left; column < std::min(left + kTile, row); ++column) copy(row, column);
      }
    }
  }
}

}  // namespace kedge
