// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace kedge {

/// Around every public operation that computes. While it lives, threads() does not change in its thread; afterwards the
/// thread's number of OpenMP threads and its GPU are what they were.
class Work {
 public:
  Work();
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

 private:
  int openmp_threads_;
};

/// Around every call of BLAS or LAPACK, and around nothing that waits for another thread: the call has as many threads
/// as its operation, whatever else the process is doing, so that it gives the same bits every time. BLAS has one number
/// for the whole process: calls that ask for the same number run beside each other, others wait for their turn, and
/// when none is left the process has its own number again.
class BlasCall {
 public:
  /// With threads(), as the calling thread has it.
  BlasCall();
  explicit BlasCall(unsigned threads);
  ~BlasCall();
  BlasCall(const BlasCall&) = delete;
  BlasCall& operator=(const BlasCall&) = delete;

  /// How many calls wait for their turn now.
  [[nodiscard]] static std::size_t waiting();
};

}  // namespace kedge
