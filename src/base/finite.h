// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <type_traits>

namespace kedge {

/// Whether no value is NaN or infinite.
template <class T>
[[nodiscard]] bool all_finite(std::span<const T> values) {
  // The exponent is all ones in NaN and infinity only; comparing bits keeps the loop free of branches.
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr Bits kExponent = sizeof(T) == 4 ? Bits{0x7f800000} : static_cast<Bits>(0x7ff0000000000000);
  Bits found = 0;
  for (const T value : values) found |= static_cast<Bits>((std::bit_cast<Bits>(value) & kExponent) == kExponent);
  return found == 0;
}

}  // namespace kedge
