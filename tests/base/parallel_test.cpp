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
  constexpr std::size_t kBlocks = 100'000'000;  // not to be done while the one that throws waits for a core
  std::atomic<std::size_t> blocks{0};
  const auto run = [&] {
    parallel_blocks(kBlocks, 1, 4, [&] {
      return [&](std::size_t, std::size_t) {
        if (++blocks == 100) throw std::runtime_error("stop");
      };
    });
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_LT(blocks, kBlocks);
}

struct Recorder {
  std::vector<std::size_t>& order;
  std::atomic<int>& reading;
  std::size_t fails_at = ~std::size_t{0};

  void read(std::size_t first, std::size_t) {
    ++reading;
    if (first == fails_at) throw std::runtime_error("unreadable");
  }
  void hand_over(std::size_t first, std::size_t size) {
    for (std::size_t i = first; i < first + size; ++i) order.push_back(i);
  }
};

TEST(ParallelBlocksInOrder, HandsOverEveryBlockInItsTurn) {
  for (const unsigned workers : {1U, 3U, 16U}) {
    std::vector<std::size_t> order;
    std::atomic<int> reading{0};
    parallel_blocks_in_order(1001, 10, workers, [&] { return Recorder{order, reading}; });
    ASSERT_EQ(order.size(), 1001U);
    for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
    EXPECT_EQ(reading, 101);
  }
}

TEST(ParallelBlocksInOrder, ABlockThatFailsLeavesNobodyWaiting) {
  for (const std::size_t bad : {0U, 10U, 500U, 1000U}) {
    std::vector<std::size_t> order;
    std::atomic<int> reading{0};
    const auto run = [&] { parallel_blocks_in_order(1001, 10, 8, [&] { return Recorder{order, reading, bad}; }); };
    EXPECT_THROW(run(), std::runtime_error);
    for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
    EXPECT_LE(order.size(), bad);
  }
}

}  // namespace
}  // namespace kedge
