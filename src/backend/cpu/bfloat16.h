// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace kedge::cpu {

/// The upper half of a float, rounded to the nearest, and to the even one of two that are as near. NaN stays NaN, and
/// what is too large becomes infinite.
constexpr std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const std::uint32_t quiet = bits >> 16 | 0x40;  // the carry could make zero of a NaN, or the cut infinity
  return static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

constexpr float from_bfloat16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

}  // namespace kedge::cpu
