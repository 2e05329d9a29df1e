// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

// Sums in a fixed order, so that the same input always gives the same bits.
namespace kedge::cuda {

constexpr unsigned kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffU;

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// Every lane of the warp gets the result.
template <class T, class Operation>
__device__ T warp_reduce(T value, Operation operation) {
  for (unsigned offset = kWarp / 2; offset > 0; offset /= 2) {
    value = operation(value, __shfl_xor_sync(kAllLanes, value, offset));
  }
  return value;
}

/// Every thread of the block gets the result; the block must be whole warps. `nothing` leaves the other operand as it
/// is.
template <class T, class Operation>
__device__ T block_reduce(T value, T nothing, Operation operation) {
  __shared__ T parts[kWarp];
  const unsigned lane = threadIdx.x % kWarp;
  value = warp_reduce(value, operation);
  __syncthreads();  // the parts may still be read by whom they were made for before
  if (lane == 0) parts[threadIdx.x / kWarp] = value;
  __syncthreads();
  return warp_reduce(lane < blockDim.x / kWarp ? parts[lane] : nothing, operation);
}

template <class T>
__device__ T block_sum(T value) {
  return block_reduce(value, T{0}, Plus{});
}

}  // namespace kedge::cuda
