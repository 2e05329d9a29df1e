// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"
#include "compute/cuda/lane.h"

#include <kedge/device.h>

#include <array>
#include <cstdint>
#include <map>

namespace kedge::cuda {

/// What cuBLASLt needs to know of one shape of product, asked once: to ask takes longer than a small product.
struct AffinePlan {
  cublasLtMatmulDescOpaque_t product{};
  cublasLtMatrixLayoutOpaque_t w{}, x{}, y{};
  cublasLtMatmulAlgo_t algorithm{};
};

/// The plans of all shapes met so far. Not for several threads at once.
class AffinePlans {
 public:
  /// Makes it if there is none yet; on the host alone, so that a stream may be captured meanwhile.
  [[nodiscard]] AffinePlan& plan(const Lane& lane, ConstPanel x, ConstPanel w, ConstPanel b, Precision precision,
                                 ConstPanel y);

 private:
  using Key = std::array<std::uint64_t, 11>;  // sizes, strides and alignments, and the precision
  std::map<Key, AffinePlan> plans_;
};

/// y = x w^T + b, with b a row, as one launch on the lane's stream; allocates nothing. fp32 is real float32.
void affine(const Lane& lane, AffinePlans& plans, ConstPanel x, ConstPanel w, ConstPanel b, Precision precision,
            Panel y);

}  // namespace kedge::cuda
