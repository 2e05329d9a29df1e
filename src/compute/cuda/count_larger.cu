// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cuda.h"
#include "compute/cuda/device.cuh"

#include <algorithm>

namespace kedge::cuda {
namespace {

constexpr std::size_t kQueries = 2048;  // rows of a block of products, 64 MB
constexpr std::size_t kKeys = 8192;     // columns
constexpr unsigned kThreads = 256;      // of a block, which works on one query
constexpr unsigned kKeysPerThread = 4;  // before near ties are decided
constexpr unsigned kChunk = kThreads * kKeysPerThread;

/// The products of some queries with some keys; query i belongs to key i.
struct CountedBlock {
  ConstPanel queries, keys;  ///< all of them
  ConstPanel products;       ///< by query, then key
  std::size_t first_query, first_key;
  float near;
};

/// In float64, by a whole warp and always in the same order: equal keys give equal products.
__device__ double exact_product(const float* a, const float* b, std::size_t cols) {
  double sum = 0;
  for (std::size_t c = threadIdx.x % kWarp; c < cols; c += kWarp) {
    sum += static_cast<double>(a[c]) * static_cast<double>(b[c]);
  }
  return warp_reduce(sum, Plus{});
}

/// counts[query] += the block's keys whose product with the query is larger than that of its own key. The order in
/// which threads come makes no difference.
__global__ void count_kernel(CountedBlock block, unsigned long long* counts) {
  __shared__ unsigned near_ties[kChunk];
  __shared__ unsigned ties;
  const std::size_t query = block.first_query + blockIdx.x;
  const float* own = row_of(block.queries, query);
  const float* products = row_of(block.products, blockIdx.x);
  const std::size_t cols = block.queries.cols;
  // Every warp computes it for itself, to the same bits.
  const double right = exact_product(own, row_of(block.keys, query), cols);
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
      const double product = exact_product(own, row_of(block.keys, block.first_key + near_ties[i]), cols);
      if (threadIdx.x % kWarp == 0 && product > right) ++larger;
    }
    __syncthreads();  // the list is used up before it is made anew
  }
  const unsigned total = block_sum(larger);
  if (threadIdx.x == 0) counts[query] += total;
}

}  // namespace

void count_larger(MatrixView<const float> queries, MatrixView<const float> keys, float near,
                  std::span<std::size_t> ranks, const std::function<void(std::size_t)>& tell) {
  require();
  const std::size_t values = checked_mul(queries.rows + keys.rows, queries.cols) + kQueries * kKeys;
  require_free(checked_mul(values, sizeof(float)), "ranking", "compare fewer rows at a time");
  const Lane lane;
  const DeviceArray<float> own_queries = lane.copy_of(queries), own_keys = lane.copy_of(keys);
  const ConstPanel all_queries{own_queries.data(), queries.rows, queries.cols, queries.cols};
  const ConstPanel all_keys{own_keys.data(), keys.rows, keys.cols, keys.cols};
  const std::size_t width = std::min(kKeys, keys.rows);
  const DeviceArray<float> products(checked_mul(std::min(kQueries, queries.rows), width));
  const DeviceArray<unsigned long long> counts(queries.rows);
  lane.clear(counts.data(), counts.size());
  for (std::size_t query = 0; query < queries.rows; query += kQueries) {
    const std::size_t rows = std::min(kQueries, queries.rows - query);
    for (std::size_t key = 0; key < keys.rows; key += kKeys) {
      const Panel block{products.data(), rows, std::min(kKeys, keys.rows - key), width};
      // In real float32: `near` allows for its rounding.
      multiply(lane,
               {CUBLAS_OP_N, CUBLAS_OP_T, queries.cols, 1, all_queries.middle_rows(query, rows),
                all_keys.middle_rows(key, block.cols), 0, block},
               Precision::fp32);
      launch(count_kernel, blocks(rows), kThreads, lane.stream(), "to count larger products",
             {all_queries, all_keys, block, query, key, near}, counts.data());
    }
    lane.wait();
    tell(query + rows);
  }
  std::vector<unsigned long long> found(queries.rows);
  lane.copy(counts.data(), found.data(), found.size());
  lane.wait();
  for (std::size_t i = 0; i < found.size(); ++i) ranks[i] += found[i];
}

}  // namespace kedge::cuda
