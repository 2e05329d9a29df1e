// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/memory.h"

#include "backend/cuda/check.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>

namespace kedge::cuda {
namespace {

double gib(std::size_t bytes) {
  return static_cast<double>(bytes) / (1U << 30);
}

}  // namespace

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, std::max<std::size_t>(bytes, 1));
  if (status != cudaErrorMemoryAllocation) {
    check(status, "to give memory");
    return memory;
  }
  (void)cudaGetLastError();  // it is told here, and must not be found again by a later check
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "to say how much memory is free");
  throw Error(Code::failed,
              fmt::format("the GPU has {:.2f} of {:.2f} GiB free, but {:.2f} GiB more are needed; lower --anchors, "
                          "--support, --batch or the rows, or use --device cpu",
                          gib(free), gib(total), gib(bytes)));
}

void* allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1), cudaHostAllocDefault), "to pin memory of the host");
  return memory;
}

void Release::operator()(void* memory) const noexcept {
  (void)cudaFree(memory);
}
void ReleasePinned::operator()(void* memory) const noexcept {
  (void)cudaFreeHost(memory);
}

}  // namespace kedge::cuda
