// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"
#include "compute/cuda/lane.h"

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

/// Whether its matrices begin on 16 bytes. The fast kernels of cuBLAS need that, and it takes it for granted if it does
/// not see their addresses.
[[nodiscard]] bool is_aligned(const Product& product);

/// A product in tf32 of few rows with a large matrix, by a setting of cuBLASLt that was measured to be faster than the
/// one it chooses. False, and nothing is queued, if none is known or cuBLASLt refuses it.
[[nodiscard]] bool multiply_large(const Lane& lane, const Product& product);

}  // namespace kedge::cuda
