// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/lane.h"

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>

namespace kedge::cuda {

/// A product as cuBLAS sees it: c = alpha left right + beta c by columns, with left or right turned.
struct ColumnProduct {
  cublasOperation_t turn_left, turn_right;
  int rows, cols, inner;
  float alpha;
  const void* left;
  int left_stride;
  const void* right;
  int right_stride;
  float beta;
  float* c;
  int c_stride;
  cudaDataType_t type;
  cublasComputeType_t compute;
};

/// Times what cuBLASLt proposes when a shape is first met, and keeps the fastest.
class TunedProducts {
 public:
  /// False if it does not know how.
  bool multiply(const Lane& lane, const ColumnProduct& product);
  [[nodiscard]] static bool wanted();

 private:
  struct Plan {
    bool usable = false;
    cublasLtMatmulDescOpaque_t product{};
    cublasLtMatrixLayoutOpaque_t left{}, right{}, c{};
    cublasLtMatmulAlgo_t algorithm{};
  };
  [[nodiscard]] Plan make(const Lane& lane, const ColumnProduct& product);
  using Key = std::array<std::int64_t, 13>;
  std::map<Key, Plan> plans_;
};

}  // namespace kedge::cuda
