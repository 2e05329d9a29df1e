// SPDX-License-Identifier: Apache-2.0
#include "backend/threads.h"

#include "backend/cuda/cuda.h"

#include <cblas.h>
#include <fmt/format.h>
#include <kedge/device.h>
#include <kedge/error.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

// Of OpenMP, which is in the process only where FAISS or OpenBLAS brings it.
extern "C" {
[[gnu::weak]] int omp_get_max_threads();
[[gnu::weak]] void omp_set_num_threads(int);
}

namespace kedge {
namespace {

struct State {
  std::mutex lock;
  unsigned threads = 0;    // 0: not set yet
  std::size_t works = 0;   // how many threads have a Work
  std::size_t single = 0;  // how many SingleThreadedBlas live
  unsigned wanted = 1;     // of BLAS, by the last Work to begin
  int found = 1;           // what BLAS had before the first
};

/// Of the calling thread.
struct Here {
  std::size_t works = 0;
  unsigned threads = 1;  // while there are any
  bool alone = false;    // it counts as the only one
};

thread_local Here here;

State& state() {
  static State instance;
  return instance;
}

unsigned usable_cores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return static_cast<unsigned>(CPU_COUNT(&allowed));
  return std::max(1U, std::thread::hardware_concurrency());
}

/// All cores, or fewer where the environment says so to BLAS. Asked before kedge tells BLAS anything.
unsigned default_threads() {
  constexpr const char* kNames[] = {"OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"};
  const bool said =
      std::any_of(std::begin(kNames), std::end(kNames), [](const char* name) { return std::getenv(name); });
  if (!said) return usable_cores();
  return std::min(usable_cores(), static_cast<unsigned>(std::max(1, openblas_get_num_threads())));
}

unsigned threads_locked(State& s) {
  if (s.threads == 0) s.threads = default_threads();
  return s.threads;
}

void tell_blas(int count) {
  if (openblas_get_num_threads() != count) openblas_set_num_threads(count);
}

void tell_blas(const State& s) {
  tell_blas(s.single > 0 ? 1 : static_cast<int>(s.wanted));
}

}  // namespace

unsigned threads() {
  if (here.alone) return 1;
  if (here.works > 0) return here.threads;
  const std::scoped_lock lock(state().lock);
  return threads_locked(state());
}

void set_threads(unsigned count) {
  if (count == 0 || count > kThreadsLimit) {
    throw Error(Code::bad_argument, fmt::format("threads is {}, expected 1 to {}", count, kThreadsLimit));
  }
  const std::scoped_lock lock(state().lock);
  threads_locked(state());
  state().threads = count;
}

Work::Work() : openmp_threads_(omp_get_max_threads != nullptr ? omp_get_max_threads() : 0) {
  if (here.works++ > 0) return;
  State& s = state();
  const std::scoped_lock lock(s.lock);
  s.wanted = here.threads = threads_locked(s);
  if (s.works++ == 0) s.found = openblas_get_num_threads();
  tell_blas(s);
}

Work::~Work() {
  if (--here.works == 0) {
    State& s = state();
    const std::scoped_lock lock(s.lock);
    if (--s.works == 0) tell_blas(s.found);
    cuda::put_back();
  }
  if (openmp_threads_ > 0 && omp_get_max_threads() != openmp_threads_) omp_set_num_threads(openmp_threads_);
}

SingleThreadedBlas::SingleThreadedBlas() {
  const std::scoped_lock lock(state().lock);
  ++state().single;
  tell_blas(state());
}

SingleThreadedBlas::~SingleThreadedBlas() {
  const std::scoped_lock lock(state().lock);
  --state().single;
  tell_blas(state());
}

unsigned product_threads() {
  return static_cast<unsigned>(std::max(1, openblas_get_num_threads()));
}

OneThread::OneThread() : before_(std::exchange(here.alone, true)) {}
OneThread::~OneThread() {
  here.alone = before_;
}

}  // namespace kedge
