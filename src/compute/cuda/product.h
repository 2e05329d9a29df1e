// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"
#include "compute/cuda/runtime.h"

namespace kedge::cuda {

/// c = alpha a b + beta c, with a or b transposed. cuBLAS counts by columns and sees the transpose of each, so it is
/// told c^T = b^T a^T.
struct Product {
  cublasOperation_t turn_a, turn_b;
  std::size_t inner;
  float alpha;
  ConstPanel a, b;
  float beta;
  Panel c;
};

/// Of float32 matrices. bf16 is tf32 here: converting a matrix for one product would not pay.
[[nodiscard]] cublasComputeType_t compute_type(Precision precision);

/// Whether its matrices begin on 16 bytes. The fast kernels of cuBLAS need that, and it takes it for granted if it does
/// not see their addresses.
[[nodiscard]] bool is_aligned(const Product& product);

// Queued on the lane; fp32 is real float32.
void multiply(const Lane& lane, const Product& product, Precision precision);
/// y = x w^T + b, with b a row, in one launch. Adding b by a kernel of its own takes 1.6 times as long in tf32.
void affine(const Lane& lane, ConstPanel x, ConstPanel w, ConstPanel b, Precision precision, Panel y);

}  // namespace kedge::cuda
