// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"
#include "support.h"

#include <algorithm>
#include <array>

namespace kedge {
namespace {

TEST(Random, IsTheSameOnEveryMachine) {
  Random random(0);
  std::vector<std::uint64_t> drawn;
  for (int i = 0; i < 4; ++i) drawn.push_back(random.below(1000));
  // mt19937_64 seeded with 0, by the C++ standard, modulo 1000.
  EXPECT_THAT(drawn, ::testing::ElementsAre(2947667278772165694ULL % 1000, 18301848765998365067ULL % 1000,
                                            729919693006235833ULL % 1000, 11021831128136023278ULL % 1000));
}

TEST(Random, SamplesDifferentNumbersEvenly) {
  std::array<int, 10> counts{};
  Random random(1);
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::size_t> sample = random.sample(10, 3);
    std::ranges::sort(sample);
    EXPECT_EQ(std::ranges::adjacent_find(sample), sample.end());
    for (const std::size_t i : sample) ++counts.at(i);
  }
  for (const int count : counts) EXPECT_NEAR(count, 1500, 150);
}

TEST(Random, UniformIsAboveZeroAndEven) {
  Random random(3);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double draw = random.uniform();
    EXPECT_GT(draw, 0);
    EXPECT_LE(draw, 1);
    sum += draw;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.01);
}

TEST(Random, SampleOfAllIsAPermutation) {
  std::vector<std::size_t> sample = Random(2).sample(20, 20);
  EXPECT_FALSE(std::ranges::is_sorted(sample));
  std::ranges::sort(sample);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(sample[i], i);
}

}  // namespace
}  // namespace kedge
