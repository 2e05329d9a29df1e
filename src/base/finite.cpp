// SPDX-License-Identifier: Apache-2.0
#include "base/finite.h"

#include "base/every_processor.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace kedge {
namespace {

// The exponent is all ones in NaN and infinity only; comparing bits keeps the loops free of branches.

KEDGE_EVERY_PROCESSOR bool none_odd(const float* values, std::size_t count) {
  constexpr std::uint32_t kExponent = 0x7f800000;
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    found |= (std::bit_cast<std::uint32_t>(values[i]) & kExponent) == kExponent ? 1U : 0U;
  }
  return found == 0;
}

KEDGE_EVERY_PROCESSOR bool none_odd(const double* values, std::size_t count) {
  constexpr std::uint64_t kExponent = 0x7ff0000000000000;
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    found |= (std::bit_cast<std::uint64_t>(values[i]) & kExponent) == kExponent ? 1U : 0U;
  }
  return found == 0;
}

}  // namespace

bool all_finite(std::span<const float> values) {
  return none_odd(values.data(), values.size());
}
bool all_finite(std::span<const double> values) {
  return none_odd(values.data(), values.size());
}

}  // namespace kedge
