// SPDX-License-Identifier: Apache-2.0
#include "match/assign.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kedge {
namespace {

Matrix64 symmetric(std::size_t count, Random& random) {
  Matrix64 matrix(count, count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k <= i; ++k) matrix.row(i)[k] = matrix.row(k)[i] = random.normal();
  }
  return matrix;
}

Matrix64 any(std::size_t count, Random& random) {
  Matrix64 matrix(count, count);
  for (double& cell : matrix.cells()) cell = random.normal();
  return matrix;
}

TEST(Assign, FindsWhatTryingEveryOrderFinds) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    Random random(seed);
    const Matrix64 first = symmetric(6, random), second = symmetric(6, random);
    const Matrix64 linear = seed % 2 == 0 ? Matrix64() : any(6, random);
    std::vector<std::size_t> order(6);
    std::iota(order.begin(), order.end(), std::size_t{0});
    double most = -1e300;
    do most = std::max(most, assignment_value(first, second, linear, order));
    while (std::ranges::next_permutation(order).found);
    const double found = assignment_value(first, second, linear, assign(first, second, linear, 50, random));
    EXPECT_NEAR(found, most, 1e-9 * std::abs(most));
  }
}

TEST(Assign, GainsStayThoseOfTheOrderReached) {
  Random random(7);
  const Matrix64 first = symmetric(12, random), second = symmetric(12, random), linear = any(12, random);
  SwapSearch search(first, second, linear, random.sample(12, 12));
  for (int swap = 0; swap < 20; ++swap) {
    const std::size_t a = 1 + random.below(11), b = random.below(a);
    search.apply(a, b);
    const double value = assignment_value(first, second, linear, search.order());
    for (std::size_t i = 1; i < 12; ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        std::vector<std::size_t> swapped = search.order();
        std::swap(swapped[i], swapped[k]);
        const double gain = assignment_value(first, second, linear, swapped) - value;
        EXPECT_NEAR(search.gain(i, k), gain, 1e-9 * (std::abs(value) + std::abs(gain)));
      }
    }
  }
}

}  // namespace
}  // namespace kedge
