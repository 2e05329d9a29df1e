// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <cuda_runtime_api.h>

#include <cstddef>

namespace kedge::cuda {

/// A block of products of some queries with some keys, out of all; query i belongs to key i.
struct CountedBlock {
  ConstPanel queries, keys;  ///< all of them
  ConstPanel products;       ///< by query, then key
  std::size_t first_query = 0, first_key = 0;
  float near = 0;
};

/// counts[query] += the block's keys whose product with the query is larger than that of its own key. The order in
/// which threads come makes no difference.
void count_larger(cudaStream_t stream, const CountedBlock& block, unsigned long long* counts);

}  // namespace kedge::cuda
