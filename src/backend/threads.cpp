// SPDX-License-Identifier: Apache-2.0
#include "backend/threads.h"

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

namespace kedge {
namespace {

struct State {
  std::mutex lock;
  unsigned threads = 0;  // 0: not set yet
  int single = 0;        // how many SingleThreadedBlas live
};

thread_local bool alone = false;  // this thread counts as the only one

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

void tell_libraries(State& s) {
  const unsigned count = threads_locked(s);
  openblas_set_num_threads(s.single > 0 ? 1 : static_cast<int>(count));
}

}  // namespace

unsigned threads() {
  if (alone) return 1;
  const std::scoped_lock lock(state().lock);
  return threads_locked(state());
}

void set_threads(unsigned count) {
  if (count == 0 || count > kThreadsLimit) {
    throw Error(Code::bad_argument, fmt::format("threads is {}, expected 1 to {}", count, kThreadsLimit));
  }
  const std::scoped_lock lock(state().lock);
  state().threads = count;
  tell_libraries(state());
}

SingleThreadedBlas::SingleThreadedBlas() {
  const std::scoped_lock lock(state().lock);
  ++state().single;
  tell_libraries(state());
}

SingleThreadedBlas::~SingleThreadedBlas() {
  const std::scoped_lock lock(state().lock);
  --state().single;
  tell_libraries(state());
}

OneThread::OneThread() : before_(std::exchange(alone, true)) {}
OneThread::~OneThread() {
  alone = before_;
}

}  // namespace kedge
