// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kedge {

/// Around every public operation that computes: BLAS has kedge's number of threads while it lives, and what the process
/// had is back afterwards: the threads of BLAS and OpenMP, and the calling thread's GPU. They may nest and overlap;
/// BLAS, which has one number for the whole process, follows the last one to begin, and the last one to end puts back
/// what the first one found. In its thread, threads() stays what it was when the outermost one began.
class Work {
 public:
  Work();
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

 private:
  int openmp_threads_;  // OpenMP has a number for each thread
};

/// While one of these lives, BLAS runs each product on the calling thread, so that several threads can each run their
/// own. They may overlap; the last one to go gives BLAS its threads back.
class SingleThreadedBlas {
 public:
  SingleThreadedBlas();
  ~SingleThreadedBlas();
  SingleThreadedBlas(const SingleThreadedBlas&) = delete;
  SingleThreadedBlas& operator=(const SingleThreadedBlas&) = delete;

 private:
  Work work_;
};

/// How many threads BLAS shares a product out to now; 1 for those that each run their own.
[[nodiscard]] unsigned product_threads();

/// While one of these lives, the calling thread counts as the only one kedge has: threads() is 1 there, and BLAS does
/// not share products out. For threads that each do a whole piece of independent work.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  SingleThreadedBlas blas_;
  bool before_;
};

}  // namespace kedge
