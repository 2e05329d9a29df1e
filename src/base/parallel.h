// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace kedge {

/// While one of these lives, the calling thread counts as the only one there is: threads() is 1 there, and BLAS does
/// not share its products out. For threads that each do a whole piece of independent work.
class OneThread {
 public:
  OneThread() : before_(std::exchange(alone_, true)) {}
  ~OneThread() { alone_ = before_; }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

  [[nodiscard]] static bool alone() { return alone_; }

 private:
  static inline thread_local bool alone_ = false;
  bool before_;
};

/// Splits [0, count) into blocks that `workers` threads take in turn. make_worker() runs once in every thread and
/// returns the function called with (first, size) of each block, so buffers live in it. The first exception stops all.
/// If there are several workers, each is a OneThread.
template <class MakeWorker>
void parallel_blocks(std::size_t count, std::size_t block, unsigned workers, const MakeWorker& make_worker) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_lock;
  const auto run = [&] {
    std::optional<OneThread> alone;
    if (workers > 1) alone.emplace();
    try {
      auto worker = make_worker();
      for (std::size_t first = next.fetch_add(block); first < count; first = next.fetch_add(block)) {
        worker(first, std::min(block, count - first));
      }
    } catch (...) {
      const std::scoped_lock lock(failure_lock);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  const std::size_t blocks = (count + block - 1) / block;
  std::vector<std::jthread> threads;
  try {
    for (std::size_t i = 1; i < std::min<std::size_t>(workers, blocks); ++i) threads.emplace_back(run);
  } catch (const std::system_error&) {  // the system refuses more threads; those that started do all the work
  }
  run();
  threads.clear();  // joins
  if (failure) std::rethrow_exception(failure);
}

/// The same if the results of blocks must be used in order: make_worker() returns an object with read(first, size),
/// which all threads call at once, and hand_over(first, size), which they call one at a time and in that order.
template <class MakeWorker>
void parallel_blocks_in_order(std::size_t count, std::size_t block, unsigned workers, const MakeWorker& make_worker) {
  std::mutex lock;
  std::condition_variable moved_on;
  std::size_t turn = 0;  // the block that is handed over next
  bool failed = false;
  parallel_blocks(count, block, workers, [&] {
    return [&, worker = make_worker()](std::size_t first, std::size_t size) mutable {
      try {
        worker.read(first, size);
        std::unique_lock held(lock);
        moved_on.wait(held, [&] { return turn == first || failed; });
        if (failed) return;  // the block before it will never come
        worker.hand_over(first, size);
        turn = first + size;
      } catch (...) {
        const std::scoped_lock held(lock);
        failed = true;
        moved_on.notify_all();
        throw;
      }
      moved_on.notify_all();
    };
  });
}

}  // namespace kedge
