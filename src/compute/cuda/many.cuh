// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cuda/kernels.h"

#include <algorithm>

namespace kedge::cuda {

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

/// Where the sums of the block's operation begin, when those of all stand one after the other.
template <class Operation>
__device__ double* own_scratch(const Many<Operation>& many, double* scratch) {
  for (unsigned i = 0; i < blockIdx.y; ++i) scratch += scratch_of(many.each[i]);
  return scratch;
}

/// Blocks for all of them, where each needs blocks_of(operation): those that have less to do leave at once.
template <class Operation, class BlocksOf>
dim3 grid_of(std::span<const Operation> all, BlocksOf blocks_of) {
  std::size_t most = 1;
  for (const Operation& operation : all) most = std::max<std::size_t>(most, blocks_of(operation));
  return {static_cast<unsigned>(most), static_cast<unsigned>(all.size())};
}

}  // namespace kedge::cuda
