// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/backend.h"
#include "base/checked.h"

#include <cblas.h>

namespace kedge::cpu {

/// c = alpha a b + beta c, with a or b turned.
inline void gemm(CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, std::size_t inner, float alpha, ConstPanel a,
                 ConstPanel b, float beta, Panel c) {
  cblas_sgemm(CblasRowMajor, turn_a, turn_b, checked_int(c.rows, "rows"), checked_int(c.cols, "columns"),
              checked_int(inner, "the inner size"), alpha, a.data, checked_int(a.stride, "stride"), b.data,
              checked_int(b.stride, "stride"), beta, c.data, checked_int(c.stride, "stride"));
}

}  // namespace kedge::cpu
