// SPDX-License-Identifier: Apache-2.0
// Compiled for x86-64 processors with AVX512_BF16 (Zen 4, Cooper Lake and later).
#include "backend/cpu/bf16_kernel.h"

#include <immintrin.h>

#include <cstring>

namespace kedge::cpu {
namespace {

constexpr std::size_t kRows = 12, kColVectors = 2;  // 24 registers of sums, of 32
constexpr std::size_t kGroup = 2, kCols = 16 * kColVectors;

__m512bh load(const std::uint16_t* values) {
  return (__m512bh)_mm512_loadu_si512(values);
}

/// Two values of one line, sixteen times.
__m512bh repeat(const std::uint16_t* values) {
  int pair;
  std::memcpy(&pair, values, sizeof pair);
  return (__m512bh)_mm512_set1_epi32(pair);
}

/// The instruction adds the products of two values of a row with two of each of sixteen columns.
void multiply(std::size_t depth, const std::uint16_t* left, const std::uint16_t* right, float* tile) {
  __m512 sums[kRows][kColVectors];
#pragma GCC unroll 12
  for (auto& row : sums) {
#pragma GCC unroll 2
    for (auto& sum : row) sum = _mm512_setzero_ps();
  }
  for (std::size_t k = 0; k < depth; k += kGroup, left += kGroup * kRows, right += kGroup * kCols) {
    const __m512bh cols[kColVectors] = {load(right), load(right + 16 * kGroup)};
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kRows; ++i) {
      const __m512bh row = repeat(left + kGroup * i);
#pragma GCC unroll 2
      for (std::size_t j = 0; j < kColVectors; ++j) sums[i][j] = _mm512_dpbf16_ps(sums[i][j], row, cols[j]);
    }
  }
#pragma GCC unroll 12
  for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (std::size_t j = 0; j < kColVectors; ++j) _mm512_storeu_ps(tile + i * kCols + 16 * j, sums[i][j]);
  }
}

}  // namespace

const Bf16Kernel kAvx512Bf16{"AVX512_BF16", kRows, kCols, kGroup, kGroup, 1024, multiply};

}  // namespace kedge::cpu
