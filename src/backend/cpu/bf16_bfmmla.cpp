// SPDX-License-Identifier: Apache-2.0
// Compiled for Arm processors that multiply bfloat16 (Neoverse V1 and later).
#include "backend/cpu/bf16_kernel.h"

#include <arm_neon.h>

namespace kedge::cpu {
namespace {

// 16 registers of sums, of 32: with more, the compiler runs out of them.
constexpr std::size_t kRowPairs = 4, kColPairs = 4;
constexpr std::size_t kGroup = 4, kRows = 2 * kRowPairs, kCols = 2 * kColPairs;

bfloat16x8_t load(const std::uint16_t* values) {
  return vreinterpretq_bf16_u16(vld1q_u16(values));
}

/// The instruction multiplies two lines of four values with two more: a register of sums is 2 x 2.
void multiply(std::size_t depth, const std::uint16_t* left, const std::uint16_t* right, float* tile) {
  float32x4_t sums[kRowPairs][kColPairs];
#pragma GCC unroll 4
  for (auto& row : sums) {
#pragma GCC unroll 4
    for (auto& sum : row) sum = vdupq_n_f32(0);
  }
  for (std::size_t k = 0; k < depth; k += kGroup, left += kGroup * kRows, right += kGroup * kCols) {
    bfloat16x8_t rows[kRowPairs];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kRowPairs; ++i) rows[i] = load(left + 2 * kGroup * i);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kColPairs; ++j) {
      const bfloat16x8_t cols = load(right + 2 * kGroup * j);
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kRowPairs; ++i) sums[i][j] = vbfmmlaq_f32(sums[i][j], rows[i], cols);
    }
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kRowPairs; ++i) {
#pragma GCC unroll 2
    for (std::size_t j = 0; j < kColPairs; j += 2) {
      float* const above = tile + 2 * i * kCols + 2 * j;
      vst1q_f32(above, vcombine_f32(vget_low_f32(sums[i][j]), vget_low_f32(sums[i][j + 1])));
      vst1q_f32(above + kCols, vcombine_f32(vget_high_f32(sums[i][j]), vget_high_f32(sums[i][j + 1])));
    }
  }
}

}  // namespace

const Bf16Kernel kBfmmla{"BFMMLA", kRows, kCols, kGroup, kGroup, 1024, multiply};

}  // namespace kedge::cpu
