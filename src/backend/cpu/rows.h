// SPDX-License-Identifier: Apache-2.0
// How rows are shared out over threads.
#pragma once

#include "base/parallel.h"

#include <kedge/device.h>

#include <algorithm>
#include <cstddef>

namespace kedge::cpu {

// Fewer values than this are not worth a thread of their own.
constexpr std::size_t kWorthAThread = std::size_t{1} << 18;

/// Into how many parts rows are split: a fixed number for a thread count, so that sums by part are the same every time.
inline std::size_t parts(std::size_t rows, std::size_t cols) {
  return std::clamp<std::size_t>(rows * cols / kWorthAThread, 1,
                                 std::min<std::size_t>(threads(), std::max<std::size_t>(rows, 1)));
}

/// work(part, row) for all rows; a part is one contiguous run of rows in one thread.
template <class Work>
void for_parts(std::size_t rows, std::size_t cols, const Work& work) {
  const std::size_t count = parts(rows, cols);
  const std::size_t size = (rows + count - 1) / count;
  parallel_blocks(rows, size, static_cast<unsigned>(count), [&] {
    return [&](std::size_t first, std::size_t part_rows) {
      for (std::size_t i = first; i < first + part_rows; ++i) work(first / size, i);
    };
  });
}

template <class Work>
void for_rows(std::size_t rows, std::size_t cols, const Work& work) {
  for_parts(rows, cols, [&](std::size_t, std::size_t i) { work(i); });
}

}  // namespace kedge::cpu
