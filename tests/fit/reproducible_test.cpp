// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <chrono>
#include <random>
#include <thread>

namespace kedge {
namespace {

/// Two views of the same inputs, wide enough for BLAS to share their products out.
std::vector<Matrix> parallel_rows() {
  constexpr std::size_t kRows = 700, kShared = 40;
  const Matrix shared = test::random_matrix(kRows, kShared, 1);
  std::vector<Matrix> result;
  for (const std::size_t dim : {210U, 260U}) {
    Matrix rows = test::random_matrix(kRows, dim, static_cast<unsigned>(dim));
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t c = 0; c < dim; ++c) rows.row(r)[c] += 2 * shared.row(r)[c % kShared];
    }
    result.push_back(std::move(rows));
  }
  return result;
}

/// Transforms and attaches by kernel until it is told to end; each begins a moment after the one before it ended.
std::jthread busy_beside(const Bundle& bundle, const Space& space, const test::TemporaryFolder& folder) {
  return std::jthread([&](const std::stop_token& stop) {
    std::mt19937 engine(7);
    std::uniform_int_distribution<int> pause(0, 3000);
    AttachOptions by_kernel;
    by_kernel.by = AttachBy::kernel;
    for (bool transforms = true; !stop.stop_requested(); transforms = !transforms) {
      if (transforms) {
        transform(*bundle.map("a"), space, folder.file("rr.npy"));
      } else {
        (void)attach(bundle, space, by_kernel);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(pause(engine)));
    }
  });
}

class OnThreads : public ::testing::TestWithParam<unsigned> {
 protected:
  OnThreads() { set_threads(GetParam()); }
  ~OnThreads() override { set_threads(before_); }

 private:
  unsigned before_ = threads();
};

TEST_P(OnThreads, AFitGivesTheSameBytesWhateverElseTheProcessDoes) {
  const test::TemporaryFolder folder;
  const std::vector<Matrix> rows = parallel_rows();
  const std::vector<Space> spaces{test::space_of("a", rows[0]), test::space_of("b", rows[1])};
  FitOptions plain;
  plain.support = 350;
  FitOptions by_kernel = plain;
  by_kernel.attach_by = AttachBy::kernel;
  const auto bytes_of = [&](const FitOptions& options) {
    save_bundle(fit(spaces, options), folder.file("made.kedge"));
    return test::read_file(folder.file("made.kedge"));
  };
  const std::string wanted = bytes_of(plain), wanted_by_kernel = bytes_of(by_kernel);
  const Bundle shared = load_bundle(folder.file("made.kedge"));
  const std::jthread other = busy_beside(shared, spaces[0], folder);
  const int fits = GetParam() == 2 ? 20 : 4;
  for (int again = 0; again < fits; ++again) {
    ASSERT_TRUE(bytes_of(plain) == wanted) << "at the " << again << "th fit";
    if (again % 4 == 0) {
      ASSERT_TRUE(bytes_of(by_kernel) == wanted_by_kernel) << "at the " << again << "th fit";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Reproducible, OnThreads, ::testing::Values(2U, 3U));

}  // namespace
}  // namespace kedge
