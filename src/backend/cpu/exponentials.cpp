// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/exponentials.h"

#include "base/every_processor.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace kedge::cpu {
namespace {

/// exp(x) for x <= 0 without a branch, within two units in the last place. `rest` is made in two steps because the
/// first of them is exact; a compiler that may reorder sums merges them.
[[gnu::always_inline]] inline float exp_not_positive(float x) {
  x = x < -87.0F ? -87.0F : x;
  const auto power = static_cast<std::int32_t>(x * 1.44269504F - 0.5F);  // rounds to the nearest, as x is not positive
  const auto whole = static_cast<float>(power);
  const float rest = (x - whole * 0.693359375F) + whole * 2.12194440e-4F;
  const float square = rest * rest;
  const float high =
      (1.9875691500e-4F * rest + 1.3981999507e-3F) * square + (8.3334519073e-3F * rest + 4.1665795894e-2F);
  const float low = 1.6666665459e-1F * rest + 5.0000001201e-1F;
  const float sum = (high * square + low) * square + rest + 1;
  return sum * std::bit_cast<float>((power + 127) << 23);
}

KEDGE_EVERY_PROCESSOR void below(const float* x, float most, float factor, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = exp_not_positive(factor * (x[i] - most));
}

KEDGE_EVERY_PROCESSOR void below_one(float* __restrict row, float factor, float* __restrict columns, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float below = row[i] < 1.0F ? row[i] - 1.0F : 0.0F;  // rounding may leave a cosine above 1
    row[i] = exp_not_positive(factor * below);
    columns[i] += row[i];
  }
}

}  // namespace

void exp_below(std::span<const float> x, float most, float factor, std::span<float> out) {
  below(x.data(), most, factor, out.data(), x.size());
}

void exp_below_one(std::span<float> row, float factor, std::span<float> columns) {
  below_one(row.data(), factor, columns.data(), row.size());
}

}  // namespace kedge::cpu
