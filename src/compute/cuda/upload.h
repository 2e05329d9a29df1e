// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cuda/check.h"
#include "compute/cuda/memory.h"

#include <algorithm>
#include <span>

namespace kedge::cuda {

/// A copy of the values in the GPU's memory, its rows packed. Streams do not wait for it, so the device must be waited
/// for before they use it.
[[nodiscard]] inline DeviceArray<float> upload(MatrixView<const float> values) {
  DeviceArray<float> array(checked_mul(values.rows, values.cols));
  if (array.size() == 0) return array;
  const std::size_t row = values.cols * sizeof(float);
  // Rows that are packed already are one row to it, as the number of those has a limit.
  const bool packed = values.stride == values.cols;
  const cudaError_t status = packed ? cudaMemcpy(array.data(), values.data, values.rows * row, cudaMemcpyHostToDevice)
                                    : cudaMemcpy2D(array.data(), row, values.data, values.stride * sizeof(float), row,
                                                   values.rows, cudaMemcpyHostToDevice);
  check(status, "to copy a map");
  return array;
}

[[nodiscard]] inline DeviceArray<float> upload(std::span<const float> values) {
  return upload(MatrixView<const float>{values.data(), 1, values.size(), values.size()});
}

}  // namespace kedge::cuda
