// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace kedge::cuda {

/// N floats that are loaded and stored at once.
template <int N>
struct alignas(4 * N) Floats {
  float values[N];
};

template <int N>
__device__ Floats<N> load(const float* row, std::size_t i) {
  return reinterpret_cast<const Floats<N>*>(row)[i];
}

template <int N>
__device__ void store(float* row, std::size_t i, const Floats<N>& floats) {
  reinterpret_cast<Floats<N>*>(row)[i] = floats;
}

/// Rounded to the nearest.
template <int N>
__device__ void store_narrow(__nv_bfloat16* row, std::size_t i, const Floats<N>& floats) {
  struct alignas(2 * N) Narrow {
    __nv_bfloat16 values[N];
  } narrow;
#pragma unroll
  for (int k = 0; k < N; ++k) narrow.values[k] = __float2bfloat16_rn(floats.values[k]);
  reinterpret_cast<Narrow*>(row)[i] = narrow;
}

/// Whether every row of a panel can be read four floats at a time.
template <class T>
__host__ __device__ bool in_fours(BasicPanel<T> p) {
  return reinterpret_cast<std::uintptr_t>(p.data) % 16 == 0 && p.stride % 4 == 0 && p.cols % 4 == 0;
}

}  // namespace kedge::cuda
