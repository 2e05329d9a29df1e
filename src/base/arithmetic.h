// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <algorithm>
#include <string_view>

// Marks a function that is compiled for each generation of processors; the right one is chosen when the program starts.
// clang 14 does not know the names of generations, and sanitizers do not survive the choice at start-up.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define KEDGE_EVERY_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define KEDGE_EVERY_PROCESSOR
#endif

namespace kedge {

/// a + b; throws Error(Code::failed) if the sum does not fit.
[[nodiscard]] std::size_t checked_add(std::size_t a, std::size_t b);

/// A size as the int that BLAS and LAPACK take; throws Error(Code::failed) naming what was too large.
[[nodiscard]] int checked_int(std::size_t value, std::string_view what);

/// As for float32, whose own is public.
[[nodiscard]] bool all_finite(std::span<const double> values);

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
