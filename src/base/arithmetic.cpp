// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.h"

#include "base/wording.h"

#include <bit>
#include <cstdint>
#include <limits>

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

std::size_t checked_mul(std::size_t a, std::size_t b) {
  std::size_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    fail("a matrix of {} x {} values does not fit in memory", a, b);
  }
  return product;
}

std::size_t checked_add(std::size_t a, std::size_t b) {
  std::size_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) fail("{} + {} bytes is too large", a, b);
  return sum;
}

int checked_int(std::size_t value, std::string_view what) {
  if (value > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    fail("{} is {}, more than the linear algebra library can take ({})", what, value, std::numeric_limits<int>::max());
  }
  return static_cast<int>(value);
}

bool all_finite(std::span<const float> values) {
  return none_odd(values.data(), values.size());
}
bool all_finite(std::span<const double> values) {
  return none_odd(values.data(), values.size());
}

}  // namespace kedge
