// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace kedge {

/// Put one at the beginning of every public operation that computes. While it lives, threads() does not change in its
/// thread; afterwards the thread's number of OpenMP threads and its GPU are what they were.
class Work {
 public:
  Work();
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

 private:
  int openmp_threads_;
};

/// Put one around every call of BLAS or LAPACK, and around nothing that waits for another thread. The call gets as many
/// threads as its operation has, whatever else the process is doing, so that it gives the same bits every time. BLAS
/// has one number of threads for the whole process: calls that ask for the same number run beside each other, others
/// wait for their turn, and after the last call the process has its own number again.
class BlasCall {
 public:
  /// With threads(), as the calling thread has it. Throws std::bad_alloc if BLAS could not get memory for the call.
  BlasCall();
  explicit BlasCall(unsigned threads);
  ~BlasCall();
  BlasCall(const BlasCall&) = delete;
  BlasCall& operator=(const BlasCall&) = delete;

  /// How many calls wait for their turn now.
  [[nodiscard]] static std::size_t waiting();
};

/// The address space that BLAS takes if it runs with so many threads.
[[nodiscard]] std::size_t blas_memory(std::size_t threads);
/// Whether so much could be mapped now. OpenBLAS must be asked for nothing that does not fit: it would try for ever.
[[nodiscard]] bool can_map(std::size_t bytes);
/// Returns once all threads of BLAS have begun, and they and the calling thread have mapped their buffers. There must
/// be room for them: whoever finds none tries for ever, and exit() waits for it too. Later others could have taken the
/// room.
void await_blas_threads();

}  // namespace kedge
