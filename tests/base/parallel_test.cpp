// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"

#include "support.h"

#include <stdexcept>

namespace kedge {
namespace {

TEST(ParallelBlocks, VisitsEveryIndexOnce) {
  for (const unsigned workers : {1U, 3U, 16U}) {
    std::vector<std::atomic<int>> visits(1001);
    parallel_blocks(visits.size(), 10, workers, [&] {
      return [&](std::size_t first, std::size_t size) {
        for (std::size_t i = first; i < first + size; ++i) ++visits[i];
      };
    });
    for (const auto& count : visits) EXPECT_EQ(count, 1);
  }
}

TEST(ParallelBlocks, NothingToDoIsFine) {
  parallel_blocks(0, 10, 4, [] { return [](std::size_t, std::size_t) { FAIL(); }; });
}

TEST(ParallelBlocks, TheFirstExceptionStopsAllAndIsThrownAgain) {
  std::atomic<int> blocks{0};
  const auto run = [&] {
    parallel_blocks(1'000'000, 1, 4, [&] {
      return [&](std::size_t, std::size_t) {
        if (++blocks == 100) throw std::runtime_error("stop");
      };
    });
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_LT(blocks, 1'000'000);
}

}  // namespace
}  // namespace kedge
