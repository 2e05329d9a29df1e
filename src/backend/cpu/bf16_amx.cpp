// SPDX-License-Identifier: Apache-2.0
// Compiled for x86-64 processors with AMX (Sapphire Rapids and later).
#include "backend/cpu/bf16_kernel.h"

#include <immintrin.h>

namespace kedge::cpu {
namespace {

// A tile register has 16 rows of 64 bytes: 16 rows of a left factor, 32 values each; or 16 pairs of values of a right
// factor's 16 columns; or 16 x 16 sums. Four hold sums, two each a factor's.
constexpr std::size_t kSide = 16, kGroup = 32, kPair = 2, kRows = 2 * kSide, kCols = 2 * kSide;
constexpr std::size_t kLeftBytes = 64, kRightBytes = 2 * 64, kSumBytes = kCols * sizeof(float);

void begin() {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {kSide, kSide, kSide, kSide, kSide, kSide, kSide, kSide};
  } shapes;
  _tile_loadconfig(&shapes);
}

void end() {
  _tile_release();
}

void multiply(std::size_t depth, const std::uint16_t* left, const std::uint16_t* right, float* tile) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::size_t k = 0; k < depth; k += kGroup, left += kGroup * kRows, right += kGroup * kCols) {
    _tile_loadd(4, left, kLeftBytes);
    _tile_loadd(6, right, kRightBytes);
    _tile_loadd(7, right + kPair * kSide, kRightBytes);
    _tile_loadd(5, left + kGroup * kSide, kLeftBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, tile, kSumBytes);
  _tile_stored(1, tile + kSide, kSumBytes);
  _tile_stored(2, tile + kSide * kCols, kSumBytes);
  _tile_stored(3, tile + kSide * kCols + kSide, kSumBytes);
}

}  // namespace

const Bf16Kernel kAmxBf16{"AMX", kRows, kCols, kGroup, kPair, 1024, multiply, begin, end};

}  // namespace kedge::cpu
