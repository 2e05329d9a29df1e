// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"
#include "compute/cuda/runtime.h"
#include "compute/kernel_function.h"

namespace kedge::cuda {

/// A kernel function in the GPU's memory. What applies it only reads it.
struct DeviceKernel {
  /// Waits until all of it is there.
  DeviceKernel(const KernelFunction& function, Precision asked);

  std::size_t input_dim, output_dim, row_count;
  float width;
  bool projected;
  Precision precision;
  DeviceArray<float> projection, rows, coefficients, weight, bias, mean;
};

/// Takes rows in the GPU's memory through a kernel function: a block of them at a time, and each block through a tile
/// of the function's own rows at a time, so that the memory between its two products is bounded.
class KernelApply {
 public:
  KernelApply(const DeviceKernel& function, std::size_t most_rows);

  /// How much memory one takes, in float32 values.
  [[nodiscard]] static std::size_t values(const DeviceKernel& function, std::size_t most_rows);
  /// Queued on the lane. x is changed on the way.
  void apply(const Lane& lane, Panel x, Panel y);

 private:
  void apply_some(const Lane& lane, Panel x, Panel y);

  const DeviceKernel& function_;
  std::size_t tile_, rows_;
  DeviceArray<float> unit_, curves_;
};

}  // namespace kedge::cuda
