// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/bf16_product.h"

#include "base/every_processor.h"
#include "base/parallel.h"

#include <kedge/device.h>

#include <algorithm>

namespace kedge::cpu {
namespace {

// What a thread takes at a time: a panel of the right factor meets all those of the left one, which stay in the cache.
constexpr std::size_t kLeftLines = 320, kRightLines = 64;
constexpr std::size_t kWorthThreads = std::size_t{1} << 22;  // multiplications

std::size_t blocks(std::size_t count, std::size_t block) {
  return (count + block - 1) / block;
}

/// A tile's place in c may be smaller than the tile.
KEDGE_EVERY_PROCESSOR void put(const float* tile, std::size_t tile_cols, float alpha, float beta, Panel c) {
  for (std::size_t r = 0; r < c.rows; ++r, tile += tile_cols) {
    float* const row = c.data + r * c.stride;
    if (beta == 0) {
      for (std::size_t i = 0; i < c.cols; ++i) row[i] = alpha * tile[i];
    } else {
      for (std::size_t i = 0; i < c.cols; ++i) row[i] = alpha * tile[i] + beta * row[i];
    }
  }
}

/// What a processor wants done before its tiles, and undone after them.
class Ready {
 public:
  explicit Ready(const Bf16Kernel& kernel) : kernel_(kernel) {
    if (kernel.begin != nullptr) kernel.begin();
  }
  ~Ready() {
    if (kernel_.end != nullptr) kernel_.end();
  }
  Ready(const Ready&) = delete;
  Ready& operator=(const Ready&) = delete;

 private:
  const Bf16Kernel& kernel_;
};

/// Panels of both factors, from and to.
struct Range {
  std::size_t left, left_end, right, right_end;
};

void multiply_range(const Bf16Kernel& kernel, const Bf16Panels& left, const Bf16Panels& right, const Range& range,
                    float alpha, float beta, Panel c) {
  const Ready ready(kernel);
  alignas(64) float tile[kMostTile];
  std::size_t first = 0;
  do {
    const std::size_t depth = std::min(kernel.depth, left.inner() - first);
    for (std::size_t j = range.right; j < range.right_end; ++j) {
      const std::size_t column = j * kernel.cols, columns = std::min(kernel.cols, c.cols - column);
      for (std::size_t i = range.left; i < range.left_end; ++i) {
        kernel.multiply(depth, left.at(i, first), right.at(j, first), tile);
        const std::size_t row = i * kernel.rows, rows = std::min(kernel.rows, c.rows - row);
        put(tile, kernel.cols, alpha, first == 0 ? beta : 1, c.middle_rows(row, rows).columns(column, columns));
      }
    }
    first += depth;
  } while (first < left.inner());
}

}  // namespace

void multiply(const Bf16Kernel& kernel, const Bf16Panels& left, const Bf16Panels& right, float alpha, float beta,
              Panel c) {
  const std::size_t high = std::max<std::size_t>(1, kLeftLines / kernel.rows);
  const std::size_t wide = std::max<std::size_t>(1, kRightLines / kernel.cols);
  const std::size_t across = blocks(right.panels(), wide);
  const unsigned workers = c.rows * c.cols * left.inner() < kWorthThreads ? 1 : threads();
  parallel_blocks(blocks(left.panels(), high) * across, 1, workers, [&] {
    return [&](std::size_t block, std::size_t) {
      const std::size_t i = block / across * high, j = block % across * wide;
      multiply_range(kernel, left, right, {i, std::min(i + high, left.panels()), j, std::min(j + wide, right.panels())},
                     alpha, beta, c);
    };
  });
}

void Bf16Products::multiply(float alpha, ConstPanel a, bool turn_a, ConstPanel b, bool turn_b, float beta, Panel c) {
  left_.pack(a, turn_a);
  right_.pack(b, !turn_b);
  cpu::multiply(kernel_, left_, right_, alpha, beta, c);
}

void Bf16Products::multiply(ConstPanel a, const Bf16Panels& b, Panel c) {
  left_.pack(a, false);
  cpu::multiply(kernel_, left_, b, 1, 0, c);
}

Bf16Matrix::Bf16Matrix(const Bf16Kernel& kernel, ConstPanel matrix)
    : Packed(matrix), plain_(kernel, Side::right), turned_(kernel, Side::right) {
  plain_.pack(matrix, true);
  turned_.pack(matrix, false);
}

}  // namespace kedge::cpu
