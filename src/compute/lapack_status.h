// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <kedge/error.h>
#include <lapacke.h>

#include <cstddef>
#include <new>

namespace kedge {

/// LAPACKE reports its own lack of memory by a status.
inline void require_lapack_memory(lapack_int status) {
  if (status == LAPACK_WORK_MEMORY_ERROR || status == LAPACK_TRANSPOSE_MEMORY_ERROR) throw std::bad_alloc();
}

/// For the decomposition of a symmetric matrix. LAPACKE also refuses one that holds NaN.
inline void require_converged(lapack_int status, std::size_t dim) {
  require_lapack_memory(status);
  if (status == 0) return;
  throw Error(Code::failed, fmt::format("the eigendecomposition of a {0} x {0} matrix did not converge", dim));
}

}  // namespace kedge
