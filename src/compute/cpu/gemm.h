// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <cblas.h>

#include <cstddef>

namespace kedge::cpu {

// Our own threads share c out, and each has BLAS make its part. The threads of BLAS would go on asking for work for a
// while after each product, and the row kernels between two products would have to share the cores with them.

/// c = alpha a b + beta c, with a or b turned.
void gemm(CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, std::size_t inner, float alpha, ConstPanel a, ConstPanel b,
          float beta, Panel c);

/// c = a a^T, both triangles.
void gram(ConstPanel a, Panel c);

}  // namespace kedge::cpu
