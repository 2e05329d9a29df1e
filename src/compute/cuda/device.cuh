// SPDX-License-Identifier: Apache-2.0
// What kernels are written with. Sums are made in a fixed order, so that the same input always gives the same bits.
#pragma once

#include "compute/cuda/operations.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

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

/// Every thread of the block, which must be whole warps, gets the result. `nothing` is the neutral element.
template <class T, class Operation>
__device__ T block_reduce(T value, T nothing, Operation operation) {
  __shared__ T parts[kWarp];
  const unsigned lane = threadIdx.x % kWarp;
  value = warp_reduce(value, operation);
  __syncthreads();  // the parts of the reduction before may still be read
  if (lane == 0) parts[threadIdx.x / kWarp] = value;
  __syncthreads();
  return warp_reduce(lane < blockDim.x / kWarp ? parts[lane] : nothing, operation);
}

template <class T>
__device__ T block_sum(T value) {
  return block_reduce(value, T{0}, Plus{});
}

template <class T>
__device__ T* row_of(const BasicPanel<T>& panel, std::size_t row) {
  return panel.data + row * panel.stride;
}

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

/// Whether every row of all panels can be read four floats at a time.
template <class... T>
__host__ __device__ bool in_fours(const BasicPanel<T>&... p) {
  return ((reinterpret_cast<std::uintptr_t>(p.data) % 16 == 0 && p.stride % 4 == 0 && p.cols % 4 == 0) && ...);
}

/// Several operations of one kind as a kernel's parameter: blockIdx.y says which is the block's.
template <class Operation>
struct Many {
  Operation each[kMostAtOnce];

  __device__ const Operation& mine() const { return each[blockIdx.y]; }
};

template <class Operation>
Many<Operation> many_of(std::span<const Operation> all) {
  Many<Operation> many{};
  std::copy(all.begin(), all.end(), many.each);
  return many;
}

/// Where the sums of the block's operation begin; those of all operations stand one after the other.
template <class Operation>
__device__ double* own_scratch(const Many<Operation>& many, double* scratch) {
  for (unsigned i = 0; i < blockIdx.y; ++i) scratch += scratch_of(many.each[i]);
  return scratch;
}

/// As many blocks for each operation as the largest needs; those that have nothing to do leave at once.
template <class Operation, class BlocksOf>
dim3 grid_of(std::span<const Operation> all, BlocksOf blocks_of) {
  std::size_t most = 1;
  for (const Operation& operation : all) most = std::max<std::size_t>(most, blocks_of(operation));
  return {static_cast<unsigned>(most), static_cast<unsigned>(all.size())};
}

/// Blocks for so many rows or values, `each` of them to a block.
inline unsigned blocks(std::size_t count, std::size_t each = 1) {
  return static_cast<unsigned>((count + each - 1) / each);
}

/// Queues a kernel and checks its launch; `doing` completes "the GPU failed".
template <class... Parameters>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 threads, cudaStream_t stream, const char* doing,
            const std::type_identity_t<Parameters>&... arguments) {
  kernel<<<grid, threads, 0, stream>>>(arguments...);
  check_launch(doing);
}

}  // namespace kedge::cuda
