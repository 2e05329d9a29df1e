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

}  // namespace kedge
