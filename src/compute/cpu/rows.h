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

/// How rows are split: into a fixed number of parts for a thread count, so that sums by part are the same every time.
/// Threads are counted once, here: another thread may call set_threads() at any time.
class Parts {
 public:
  Parts(std::size_t rows, std::size_t cols)
      : rows_(rows),
        count_(std::clamp<std::size_t>(rows * cols / kWorthAThread, 1,
                                       std::min<std::size_t>(threads(), std::max<std::size_t>(rows, 1)))) {}

  [[nodiscard]] std::size_t count() const { return count_; }

  /// work(part, row) for all rows; a part is one contiguous run of rows in one thread.
  template <class Task>
  void run(const Task& work) const {
    const std::size_t size = (rows_ + count_ - 1) / count_;
    parallel_blocks(rows_, size, static_cast<unsigned>(count_), [&] {
      return [&](std::size_t first, std::size_t part_rows) {
        for (std::size_t i = first; i < first + part_rows; ++i) work(first / size, i);
      };
    });
  }

 private:
  std::size_t rows_, count_;
};

template <class Task>
void for_rows(std::size_t rows, std::size_t cols, const Task& work) {
  Parts(rows, cols).run([&](std::size_t, std::size_t i) { work(i); });
}

}  // namespace kedge::cpu
