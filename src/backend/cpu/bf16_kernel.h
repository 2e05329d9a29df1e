// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Only plain types: files that are compiled for one kind of processor include this, and a function of the standard
// library that they instantiate might be taken for that of all others.
namespace kedge::cpu {

/// How a kind of processor multiplies bfloat16: one tile of the product at a time, from a panel of the left factor's
/// rows and one of the right factor's columns. A panel holds a group of values of its first line (row or column), the
/// same of the next line, and so on, then the next group of all lines.
struct Bf16Kernel {
  const char* name;
  std::size_t rows, cols;               ///< of a tile
  std::size_t left_group, right_group;  ///< values of a line that lie side by side: powers of two, 32 at most
  std::size_t depth;                    ///< how many values of each line to take at a time, for the caches' sake
  /// tile = left right, summed in float32. The depth is a multiple of both groups.
  void (*multiply)(std::size_t depth, const std::uint16_t* left, const std::uint16_t* right, float* tile);
  /// Before the first of a thread's tiles and after the last; none where nothing is to be done.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
};

constexpr std::size_t kMostTile = 1024;  ///< values of a tile

/// Those this processor can run, the fastest first and then null.
[[nodiscard]] const Bf16Kernel* const* bf16_kernels();

/// One for each kind of processor; which can run them is for bf16_kernels() to know.
extern const Bf16Kernel kBfmmla, kAvx512Bf16, kAmxBf16;

}  // namespace kedge::cpu
