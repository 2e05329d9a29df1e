// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lapacke.h>

#include <new>

namespace kedge {

/// LAPACKE gives its own lack of memory back as a status, among those of matrices that do not converge.
inline void require_lapack_memory(lapack_int status) {
  if (status == LAPACK_WORK_MEMORY_ERROR || status == LAPACK_TRANSPOSE_MEMORY_ERROR) throw std::bad_alloc();
}

}  // namespace kedge
