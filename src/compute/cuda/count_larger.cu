// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/count_larger.h"

#include "compute/cuda/check.h"
#include "compute/cuda/reduce.cuh"

namespace kedge::cuda {
namespace {

constexpr unsigned kThreads = 256;      // of a block, which works on one query
constexpr unsigned kKeysPerThread = 4;  // between two looks at near ties
constexpr unsigned kChunk = kThreads * kKeysPerThread;

/// In float64, by a whole warp and always in the same order: equal keys give equal products.
__device__ double exact_product(const float* a, const float* b, std::size_t cols) {
  double sum = 0;
  for (std::size_t c = threadIdx.x % kWarp; c < cols; c += kWarp) {
    sum += static_cast<double>(a[c]) * static_cast<double>(b[c]);
  }
  return warp_reduce(sum, Plus{});
}

__global__ void count_kernel(CountedBlock block, unsigned long long* counts) {
  __shared__ unsigned near_ties[kChunk];
  __shared__ unsigned ties;
  const std::size_t query = block.first_query + blockIdx.x;
  const float* own = block.queries.data + query * block.queries.stride;
  const float* products = block.products.data + blockIdx.x * block.products.stride;
  const std::size_t cols = block.queries.cols;
  // Every warp computes it for itself, to the same bits.
  const double right = exact_product(own, block.keys.data + query * block.keys.stride, cols);
  const auto threshold = static_cast<float>(right);
  const float above = threshold + block.near;
  const float below = threshold - block.near;

  unsigned larger = 0;
  for (std::size_t first = 0; first < block.products.cols; first += kChunk) {
    if (threadIdx.x == 0) ties = 0;
    __syncthreads();
    for (unsigned i = 0; i < kKeysPerThread; ++i) {
      const std::size_t j = first + i * kThreads + threadIdx.x;
      if (j >= block.products.cols) break;
      const float product = products[j];
      if (product > above) {
        ++larger;
      } else if (product >= below && block.first_key + j != query) {
        near_ties[atomicAdd(&ties, 1U)] = static_cast<unsigned>(j);
      }
    }
    __syncthreads();
    for (unsigned i = threadIdx.x / kWarp; i < ties; i += kThreads / kWarp) {
      const float* key = block.keys.data + (block.first_key + near_ties[i]) * block.keys.stride;
      const double product = exact_product(own, key, cols);
      if (threadIdx.x % kWarp == 0 && product > right) ++larger;
    }
    __syncthreads();  // the list is used up before it is made anew
  }
  const unsigned total = block_sum(larger);
  if (threadIdx.x == 0) counts[query] += total;
}

}  // namespace

void count_larger(cudaStream_t stream, const CountedBlock& block, unsigned long long* counts) {
  if (block.products.rows == 0) return;
  count_kernel<<<static_cast<unsigned>(block.products.rows), kThreads, 0, stream>>>(block, counts);
  check_launch("to count larger products");
}

}  // namespace kedge::cuda
