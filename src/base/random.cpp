// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

namespace kedge {

std::uint64_t Random::below(std::uint64_t bound) {
  // Draws above the largest multiple of bound would favour small results, so they are drawn again.
  const std::uint64_t limit = std::numeric_limits<std::uint64_t>::max() / bound * bound;
  std::uint64_t draw = engine_();
  while (draw >= limit) draw = engine_();
  return draw % bound;
}

double Random::uniform() {
  return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53;
}

double Random::normal() {
  // Box and Muller; one of the pair is enough.
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

std::vector<std::size_t> Random::sample(std::size_t total, std::size_t count) {
  std::vector<std::size_t> all(total);
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (std::size_t i = 0; i < count; ++i) std::swap(all[i], all[i + below(total - i)]);
  all.resize(count);
  return all;
}

}  // namespace kedge
