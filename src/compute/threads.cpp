// SPDX-License-Identifier: Apache-2.0
#include "compute/threads.h"

#include "base/parallel.h"
#include "base/wording.h"
#include "compute/cuda/cuda.h"

#include <cblas.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <new>
#include <thread>

// OpenMP is in the process only if FAISS or OpenBLAS brings it.
extern "C" {
[[gnu::weak]] int omp_get_max_threads();
[[gnu::weak]] void omp_set_num_threads(int);
}

namespace kedge {
namespace {

struct State {
  std::mutex lock;
  unsigned threads = 0;  // 0: not set yet
};

/// Who is in BLAS, and who waits to get in: in the order in which they came, so that nobody waits for ever.
struct Blas {
  std::mutex lock;
  std::condition_variable changed;
  std::size_t came = 0, let_in = 0;  // how many, ever
  std::size_t inside = 0;
  unsigned threads = 1;  // of each call inside
  int found = 1;         // the process's own number, while any is inside
  // BLAS has mapped a buffer for each of its own threads and for each call that was inside at once, and keeps them.
  std::size_t most_inside = 0;
  unsigned most_threads = static_cast<unsigned>(openblas_get_num_threads());
};

/// What the calling thread has.
struct Here {
  std::size_t works = 0;
  unsigned threads = 1;  // while there are any works
};

thread_local Here here;

State& state() {
  static State instance;
  return instance;
}

Blas& blas() {
  static Blas instance;
  return instance;
}

// A forked process has only the thread that forked it: nobody else is in BLAS there, waits, or holds a lock.
void before_fork() {
  state().lock.lock();
  blas().lock.lock();
}
void after_fork_in_parent() {
  blas().lock.unlock();
  state().lock.unlock();
}
void after_fork_in_child() {
  Blas& b = blas();
  b.inside = 0;
  b.let_in = b.came;
  new (&b.changed) std::condition_variable;  // the old one counts threads that are not there
  after_fork_in_parent();
}
const int prepared_for_forks = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);

unsigned usable_cores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return static_cast<unsigned>(CPU_COUNT(&allowed));
  return std::max(1U, std::thread::hardware_concurrency());
}

/// All cores, or fewer if the environment tells BLAS so. Called before kedge tells BLAS anything.
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

/// Whether BLAS has, or can map, the buffers that one more call needs. Beside other calls it maps them when it needs
/// them, and before that another thread may make a heap, for which malloc asks for this much.
bool has_room(const Blas& b, unsigned threads) {
  constexpr std::size_t kHeap = std::size_t{128} << 20;
  const std::size_t buffers = (b.inside < b.most_inside ? 0 : 1) + std::max(b.most_threads, threads) - b.most_threads;
  return buffers == 0 || can_map(blas_memory(buffers) + (b.inside > 0 ? kHeap : 0));
}

/// Returns once the threads of BLAS and a call of the calling thread have mapped their buffers.
void map_buffers() {
  constexpr int kShared = 1 << 14;                  // so many values are divided among all threads
  static double zeros[kShared], sum[kShared] = {};  // static, because memory may be short
  cblas_daxpy(kShared, 1, zeros, 1, sum, 1);        // without a buffer of the caller's
  cblas_dsyrk(CblasRowMajor, CblasUpper, CblasNoTrans, 1, 1, 1, zeros, 1, 0, sum, 1);
}

void tell_blas(int count) {
  if (openblas_get_num_threads() != count) openblas_set_num_threads(count);
}

}  // namespace

unsigned threads() {
  if (OneThread::alone()) return 1;
  if (here.works > 0) return here.threads;
  const std::scoped_lock lock(state().lock);
  return threads_locked(state());
}

void set_threads(unsigned count) {
  if (count == 0 || count > kThreadsLimit) {
    refuse("threads is {}, expected 1 to {}", count, kThreadsLimit);
  }
  const std::scoped_lock lock(state().lock);
  threads_locked(state());
  state().threads = count;
}

Work::Work() : openmp_threads_(omp_get_max_threads != nullptr ? omp_get_max_threads() : 0) {
  if (here.works == 0) {
    const std::scoped_lock lock(state().lock);
    here.threads = threads_locked(state());
  }
  ++here.works;
}

Work::~Work() {
  if (--here.works == 0) cuda::put_back();
  if (openmp_threads_ > 0 && omp_get_max_threads() != openmp_threads_) omp_set_num_threads(openmp_threads_);
}

BlasCall::BlasCall() : BlasCall(threads()) {}

BlasCall::BlasCall(unsigned threads) {
  Blas& b = blas();
  std::unique_lock lock(b.lock);
  const std::size_t place = b.came++;
  b.changed.wait(
      lock, [&] { return b.let_in == place && (b.inside == 0 || (b.threads == threads && has_room(b, threads))); });
  ++b.let_in;
  if (b.let_in < b.came) b.changed.notify_all();
  if (!has_room(b, threads)) throw std::bad_alloc();
  const bool more_buffers = threads > b.most_threads || b.most_inside == 0;
  b.most_inside = std::max(b.most_inside, b.inside + 1);
  b.most_threads = std::max(b.most_threads, threads);
  if (b.inside++ == 0) {
    b.found = openblas_get_num_threads();
    b.threads = threads;
    tell_blas(static_cast<int>(threads));
    if (more_buffers) map_buffers();
  }
}

std::size_t blas_memory(std::size_t threads) {
  constexpr std::size_t kBuffer = std::size_t{128} << 20, kStack = std::size_t{8} << 20;
  return threads * (kBuffer + kStack);
}

bool can_map(std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return false;
  ::munmap(at, bytes);
  return true;
}

void await_blas_threads() {
  Blas& b = blas();
  const std::scoped_lock lock(b.lock);
  map_buffers();
  b.most_inside = std::max(b.most_inside, std::size_t{1});
}

std::size_t BlasCall::waiting() {
  const std::scoped_lock lock(blas().lock);
  return blas().came - blas().let_in;
}

BlasCall::~BlasCall() {
  Blas& b = blas();
  const std::scoped_lock lock(b.lock);
  if (--b.inside == 0) tell_blas(b.found);
  if (b.let_in < b.came) b.changed.notify_all();
}

}  // namespace kedge
