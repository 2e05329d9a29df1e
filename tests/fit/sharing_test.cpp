// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

namespace kedge {
namespace {

using test::random_matrix;
using test::space_of;
using test::TemporaryFolder;

constexpr std::size_t kThreads = 8;

/// Runs work(i) on all threads at once; none starts before all are there.
void on_all_threads(const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> waiting{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      ++waiting;
      while (waiting < kThreads) std::this_thread::yield();
      work(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Rows for which BLAS shares products out, if it may.
constexpr std::size_t kRows = 600, kDim = 160;

Bundle shared_bundle(Similarity similarity) {
  const Matrix a = random_matrix(kRows, kDim, 1);
  const Matrix b = random_matrix(kRows, 120, 2);
  FitOptions options;
  options.method = ChosenRows{Choice::random};
  options.similarity = similarity;
  options.anchors = 80;
  options.support = 300;
  return fit(std::vector{space_of("a", a), space_of("b", b)}, options);
}

class SharedMap : public ::testing::TestWithParam<Similarity> {};

TEST_P(SharedMap, GivesEveryThreadTheBitsOfOne) {
  const Bundle bundle = shared_bundle(GetParam());
  const Matrix rows = random_matrix(kRows, kDim, 3);
  const Matrix expected = bundle.map("a")->apply(rows.view());
  std::vector<Matrix> found(kThreads);
  on_all_threads([&](std::size_t i) {
    for (int again = 0; again < 5; ++again) found[i] = bundle.map("a")->apply(rows.view());
  });
  for (const Matrix& rr : found) EXPECT_TRUE(std::ranges::equal(rr.cells(), expected.cells()));
}

INSTANTIATE_TEST_SUITE_P(, SharedMap,
                         ::testing::Values(Similarity::wip, Similarity::cosine, Similarity::euclidean,
                                           Similarity::inner, Similarity::angular, Similarity::manhattan),
                         [](const auto& given) { return std::string(to_string(given.param)); });

TEST(SharedBundle, MayBeAttachedToTranslatedAndSavedAtTheSameTime) {
  const Bundle bundle = shared_bundle(Similarity::wip);
  const Matrix rows = random_matrix(kRows, kDim, 4);
  const Space space = space_of("new", rows);
  const TemporaryFolder folder;
  const auto do_all = [&](const std::string& suffix) {
    save_bundle(bundle, folder.file("bundle" + suffix));
    transform(*bundle.map("a"), space, folder.file("rr" + suffix));
    translate(Translator(bundle, "a", "b"), space, folder.file("translated" + suffix));
    return attach(bundle, space, AttachOptions{}).map->weight();
  };
  const Matrix expected = do_all("-serial.npy");
  std::vector<Matrix> found(kThreads);
  on_all_threads([&](std::size_t i) { found[i] = do_all(std::to_string(i) + ".npy"); });
  for (std::size_t i = 0; i < kThreads; ++i) {
    EXPECT_TRUE(std::ranges::equal(found[i].cells(), expected.cells()));
    for (const std::string name : {"bundle", "rr", "translated"}) {
      EXPECT_EQ(test::read_file(folder.file(name + std::to_string(i) + ".npy")),
                test::read_file(folder.file(name + "-serial.npy")));
    }
  }
}

TEST(SharedOutput, IsOneWholeFileOfOneOfTheWriters) {
  const Bundle bundle = shared_bundle(Similarity::wip);
  const TemporaryFolder folder;
  std::vector<std::string> written(kThreads);
  for (std::size_t i = 0; i < kThreads; ++i) {
    const Matrix rows = random_matrix(300, kDim, static_cast<unsigned>(i));
    transform(*bundle.map("a"), space_of("a", rows), folder.file("one.npy"));
    written[i] = test::read_file(folder.file("one.npy"));
  }
  on_all_threads([&](std::size_t i) {
    const Matrix rows = random_matrix(300, kDim, static_cast<unsigned>(i));
    transform(*bundle.map("a"), space_of("a", rows), folder.file("one.npy"));
  });
  EXPECT_THAT(written, ::testing::Contains(test::read_file(folder.file("one.npy"))));
  EXPECT_THAT(folder.files(), ::testing::ElementsAre("one.npy"));
}

}  // namespace
}  // namespace kedge
