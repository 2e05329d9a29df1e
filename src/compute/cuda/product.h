// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <cublas_v2.h>

#include <cstddef>

namespace kedge::cuda {

/// c = alpha a b + beta c, with a or b turned.
struct Product {
  cublasOperation_t turn_a, turn_b;
  std::size_t inner;
  float alpha;
  ConstPanel a, b;
  float beta;
  Panel c;
};

/// Whether its matrices begin on 16 bytes: what the fast kernels of cuBLAS need, and what it takes for granted where it
/// does not see their addresses.
[[nodiscard]] bool is_aligned(const Product& product);

}  // namespace kedge::cuda
