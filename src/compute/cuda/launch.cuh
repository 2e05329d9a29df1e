// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cuda/capability.h"
#include "compute/cuda/check.h"

#include <cuda_runtime.h>

#include <cstddef>

namespace kedge::cuda {

/// A kernel that launch() starts may begin before the one it follows has ended: so it calls this before it touches
/// memory. What follows it may begin likewise.
__device__ inline void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Whether the GPU lets blocks work together in clusters, and kernels begin before the one they follow has ended.
inline bool is_hopper_or_later() {
  return compute_capability() >= kHopper;
}

struct Shape {
  dim3 grid;
  unsigned threads;
  std::size_t shared_bytes = 0;
  unsigned cluster = 1;  ///< blocks, side by side
};

template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, const Shape& shape, const char* doing, void (*kernel)(Parameters...),
            const Arguments&... arguments) {
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (is_hopper_or_later()) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {shape.cluster, 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), doing);
}

}  // namespace kedge::cuda
