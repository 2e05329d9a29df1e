// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/memory.h"

#include "base/wording.h"
#include "compute/cuda/check.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>

namespace kedge::cuda {
namespace {

double gib(std::size_t bytes) {
  return static_cast<double>(bytes) / (1U << 30);
}

struct Memory {
  std::size_t free = 0, total = 0;
};

Memory memory_of_gpu() {
  Memory memory;
  check(cudaMemGetInfo(&memory.free, &memory.total), "to report how much memory is free");
  return memory;
}

}  // namespace

void require_free(std::size_t bytes, std::string_view who, std::string_view advice) {
  const Memory memory = memory_of_gpu();
  if (bytes <= memory.free) return;
  throw Error(Code::failed,
              fmt::format("{} needs {:.2f} GiB of GPU memory, but only {:.2f} of {:.2f} GiB are free; {}, or use {}",
                          who, gib(bytes), gib(memory.free), gib(memory.total), advice, option_words("device", "cpu")));
}

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, std::max<std::size_t>(bytes, 1));
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // it is told here, and must not be found again by a later check
    require_free(bytes, "this", "give it less at once, or free memory that other programs use");
  }
  check(status, "to allocate memory");
  return memory;
}

void* allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1), cudaHostAllocDefault), "to pin host memory");
  return memory;
}

void Release::operator()(void* memory) const noexcept {
  (void)cudaFree(memory);
}
void ReleasePinned::operator()(void* memory) const noexcept {
  (void)cudaFreeHost(memory);
}

}  // namespace kedge::cuda
