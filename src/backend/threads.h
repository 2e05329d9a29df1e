// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kedge {

/// While one of these lives, BLAS runs each product on the calling thread, so that several threads can each run their
/// own. They may overlap; the last one to go gives BLAS its threads back.
class SingleThreadedBlas {
 public:
  SingleThreadedBlas();
  ~SingleThreadedBlas();
  SingleThreadedBlas(const SingleThreadedBlas&) = delete;
  SingleThreadedBlas& operator=(const SingleThreadedBlas&) = delete;
};

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
