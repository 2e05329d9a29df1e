// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <limits>
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

std::vector<std::size_t> Random::sample(std::size_t total, std::size_t count) {
  std::vector<std::size_t> all(total);
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (std::size_t i = 0; i < count; ++i) std::swap(all[i], all[i + below(total - i)]);
  all.resize(count);
  return all;
}

}  // namespace kedge
