// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"
#include "compute/backend.h"
#include "compute/threads.h"
#include "support.h"

#include <cblas.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <future>
#include <thread>

// A function of OpenMP, which is in the process only if FAISS or OpenBLAS brings it.
extern "C" {
[[gnu::weak]] int omp_get_max_threads();
[[gnu::weak]] void omp_set_num_threads(int);
}

namespace kedge {
namespace {

/// Numbers that are neither kedge's nor what a fresh process has.
class Threads : public ::testing::Test {
 protected:
  static constexpr int kOfBlas = 3, kOfOpenMp = 5;
  Threads() {
    openblas_set_num_threads(kOfBlas);
    if (omp_set_num_threads != nullptr) omp_set_num_threads(kOfOpenMp);
    set_threads(2);
  }
  ~Threads() override {
    set_threads(before_);
    openblas_set_num_threads(blas_);
    if (omp_set_num_threads != nullptr) omp_set_num_threads(openmp_);
  }

  static void expect_unchanged(const std::string& after, const std::function<void()>& work) {
    work();
    EXPECT_EQ(openblas_get_num_threads(), kOfBlas) << after;
    if (omp_get_max_threads != nullptr) {
      EXPECT_EQ(omp_get_max_threads(), kOfOpenMp) << after;
    }
  }

 private:
  unsigned before_ = threads();
  int blas_ = openblas_get_num_threads();
  int openmp_ = omp_get_max_threads != nullptr ? omp_get_max_threads() : 0;
};

TEST_F(Threads, OfTheProcessAreWhatTheyWereAfterEveryOperation) {
  const test::TemporaryFolder folder;
  const Matrix x = test::random_matrix(400, 6, 1);
  const Matrix y = test::random_matrix(400, 5, 2);
  const std::vector<Space> spaces{test::space_of("x", x), test::space_of("y", y)};
  FitOptions options;
  options.anchors = 4;
  options.support = 100;
  std::optional<Bundle> fitted;
  expect_unchanged("fit", [&] { fitted = fit(spaces, options); });
  const Bundle& bundle = fitted.value();
  expect_unchanged("fit by param", [&] {
    FitOptions param = options;
    param.method = Param{};
    std::get<Param>(param.method).epochs = 2;
    (void)fit(spaces, param);
  });
  expect_unchanged("compute_moments", [&] { (void)compute_moments(spaces[0]); });
  expect_unchanged("attach", [&] { (void)attach(bundle, test::space_of("z", x)); });
  Matrix rr;
  expect_unchanged("apply", [&] { rr = bundle.map("x")->apply(x.view()); });
  expect_unchanged("compare", [&] { (void)compare(rr.view(), bundle.map("y")->apply(y.view()).view()); });
  expect_unchanged("transform", [&] { transform(*bundle.map("x"), spaces[0], folder.file("rr.npy")); });
  expect_unchanged("translate",
                   [&] { translate(Translator(bundle, "x", "y"), spaces[0], folder.file("translated.npy")); });
  expect_unchanged("an operation that fails",
                   [&] { test::expect_error(Code::bad_argument, [&] { (void)compare(x.view(), y.view()); }); });
  expect_unchanged("set_threads", [] { set_threads(1); });
}

TEST_F(Threads, OfBlasAreTheOperationsDuringACall) {
  {
    const BlasCall call;
    EXPECT_EQ(openblas_get_num_threads(), 2);
  }
  {
    const OneThread alone;
    const BlasCall call;
    EXPECT_EQ(openblas_get_num_threads(), 1);
  }
  EXPECT_EQ(openblas_get_num_threads(), kOfBlas);
}

TEST_F(Threads, OfSeveralWorkersAreOneEach) {
  std::atomic<int> wrong{0};
  parallel_blocks(8, 1, 2, [&] { return [&](std::size_t, std::size_t) { wrong += threads() != 1; }; });
  EXPECT_EQ(wrong, 0);
  parallel_blocks(8, 1, 1, [&] { return [&](std::size_t, std::size_t) { wrong += threads() != 2; }; });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(threads(), 2U);
}

/// A call of another thread: when it has begun and how many threads BLAS then has, and when it may end.
class CallElsewhere {
 public:
  explicit CallElsewhere(unsigned threads)
      : thread_([this, threads] {
          const BlasCall call(threads);
          seen_.set_value(openblas_get_num_threads());
          end_.get_future().wait();
        }) {}
  void end() {
    end_.set_value();
    thread_.join();
  }
  [[nodiscard]] std::future<int> seen() { return seen_.get_future(); }

 private:
  std::promise<int> seen_;
  std::promise<void> end_;
  std::jthread thread_;
};

/// Until so many calls wait; a hang ends with the time limit of the test.
void await_waiting(std::size_t calls) {
  while (BlasCall::waiting() < calls) std::this_thread::yield();
}

bool has_begun(std::future<int>& seen) {
  return seen.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

TEST_F(Threads, CallsOfBlasWithAnotherNumberOfThreadsWaitForTheirTurn) {
  CallElsewhere first(2), same(2);
  EXPECT_EQ(first.seen().get(), 2);
  EXPECT_EQ(same.seen().get(), 2) << "beside the first";
  CallElsewhere other(1);
  auto other_seen = other.seen();
  await_waiting(1);
  CallElsewhere late(2);
  auto late_seen = late.seen();
  await_waiting(2);
  first.end();
  EXPECT_FALSE(has_begun(other_seen)) << "one is left";
  EXPECT_FALSE(has_begun(late_seen)) << "it came after the other";
  same.end();
  EXPECT_EQ(other_seen.get(), 1);
  EXPECT_FALSE(has_begun(late_seen));
  other.end();
  EXPECT_EQ(late_seen.get(), 2);
  late.end();
  EXPECT_EQ(openblas_get_num_threads(), kOfBlas);
}

TEST_F(Threads, AForkedProcessWaitsForNobodyElsesCall) {
  CallElsewhere call(1);
  EXPECT_EQ(call.seen().get(), 1);
  CallElsewhere waiting(2);
  await_waiting(1);
  const pid_t child = ::fork();
  if (child == 0) {
    { const BlasCall own(1); }
    ::_exit(BlasCall::waiting() == 0 ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > limit) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  call.end();
  EXPECT_EQ(waiting.seen().get(), 2);
  waiting.end();
}

TEST_F(Threads, StayTheSameThroughoutAnOperation) {
  const Work work;
  std::jthread([] { set_threads(7); }).join();
  EXPECT_EQ(threads(), 2U);
  std::jthread([] { EXPECT_EQ(threads(), 7U); }).join();
}

/// Sums are kept for each part of the rows, and there are as many parts as threads.
TEST_F(Threads, MayBeSetWhileOthersWork) {
  constexpr std::size_t kRows = 1200;  // enough for several parts
  const auto backend = make_cpu_backend();
  const auto cosines = backend->make(kRows, kRows);
  const auto turned = backend->make(kRows, kRows);
  const auto lengths = backend->make(kRows, 1);
  const auto pull = backend->make(kRows, 1);
  const auto loss = backend->make(1, 1);
  std::atomic<bool> done{false};
  const std::jthread other([&] {
    for (unsigned i = 0; !done; ++i) set_threads(i % 2 == 0 ? 1 : 5);
  });
  for (int i = 0; i < 100; ++i) {
    backend->symmetric_nce(cosines->panel(), turned->panel(), 1, {}, loss->panel());
    backend->coverage(cosines->panel(), lengths->panel(), lengths->panel(), 1, {}, cosines->panel(), pull->panel(),
                      loss->panel());
  }
  done = true;
  EXPECT_TRUE(std::isfinite(*loss->panel().data));
}

}  // namespace
}  // namespace kedge
