// SPDX-License-Identifier: Apache-2.0
// Apart from the other kernels, because here arithmetic must happen in the order it is written.
#include "base/arithmetic.h"
#include "compute/cpu/kernels.h"

#include <bit>
#include <cstdint>

namespace kedge::cpu {
namespace {

/// e^rest - 1 - rest, for |rest| <= ln(2) / 2.
[[gnu::always_inline]] inline float curve(float rest) {
  const float square = rest * rest;
  const float high =
      (1.9875691500e-4F * rest + 1.3981999507e-3F) * square + (8.3334519073e-3F * rest + 4.1665795894e-2F);
  const float low = 1.6666665459e-1F * rest + 5.0000001201e-1F;
  return (high * square + low) * square;
}

constexpr float kLn2High = 0.693359375F,
                kLn2Low = -2.12194440e-4F;  // the first has so few digits that n times it is exact

/// exp(x) for x <= 0 without a branch, within two units in the last place. `rest` is made in two steps because the
/// first of them is exact; a compiler that may reorder sums would merge them.
[[gnu::always_inline]] inline float exp_not_positive(float x) {
  x = x < -87.0F ? -87.0F : x;
  const auto power = static_cast<std::int32_t>(x * 1.44269504F - 0.5F);  // rounds to the nearest, as x is not positive
  const auto whole = static_cast<float>(power);
  const float rest = (x - whole * kLn2High) - whole * kLn2Low;
  return (curve(rest) + rest + 1) * std::bit_cast<float>((power + 127) << 23);
}

/// e^x - 1 - x without a branch. With x = n ln(2) + rest it is 2^n curve(rest) + (2^n - 1) (rest + 1) - n ln(2): what
/// cancels is gone before it is rounded, and all but the curve is 0 if n is.
[[gnu::always_inline]] inline float without_line(float x) {
  constexpr float kMost = 80, kRound = 0x1.8p23F;  // numbers of that size have no digits after the point
  x = x > kMost ? kMost : x;
  x = x < -kMost ? -kMost : x;
  const float shifted = x * 1.44269504F + kRound;
  const float whole = shifted - kRound;
  const float rest = (x - whole * kLn2High) - whole * kLn2Low;
  const float scale = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + 127U) << 23);
  const float more = scale - 1;
  return (scale * curve(rest) + more * rest) + ((more - whole * kLn2High) - whole * kLn2Low);
}

}  // namespace

KEDGE_EVERY_PROCESSOR void exp_below(std::span<const float> x, float most, float factor, std::span<float> out) {
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = exp_not_positive(factor * (x[i] - most));
}

KEDGE_EVERY_PROCESSOR void exp_below_one(std::span<float> row, float factor, std::span<float> columns) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const float below = row[i] < 1.0F ? row[i] - 1.0F : 0.0F;  // rounding may leave a cosine above 1
    row[i] = exp_not_positive(factor * below);
    columns[i] += row[i];
  }
}

KEDGE_EVERY_PROCESSOR void exp_without_line(std::span<float> u) {
  for (float& value : u) value = without_line(value);
}

}  // namespace kedge::cpu
