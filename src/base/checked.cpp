// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/matrix.h>

#include <limits>

namespace kedge {

std::size_t checked_mul(std::size_t a, std::size_t b) {
  std::size_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw Error(Code::failed, fmt::format("a matrix of {} x {} values does not fit in memory", a, b));
  }
  return product;
}

std::size_t checked_add(std::size_t a, std::size_t b) {
  std::size_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw Error(Code::failed, fmt::format("{} + {} bytes is too large", a, b));
  return sum;
}

int checked_int(std::size_t value, std::string_view what) {
  if (value > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw Error(Code::failed, fmt::format("{} is {}, more than the linear algebra library can take ({})", what, value,
                                          std::numeric_limits<int>::max()));
  }
  return static_cast<int>(value);
}

}  // namespace kedge
