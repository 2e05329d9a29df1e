// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <kedge/error.h>

namespace kedge::cuda {

std::vector<DeviceInfo> devices() {
  int count = 0;
  std::vector<DeviceInfo> found;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return found;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    found.push_back({Device::cuda, properties.name, properties.totalGlobalMem});
  }
  return found;
}

void require() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    throw Error(Code::failed, fmt::format("no GPU can be used here: {}; check the driver with nvidia-smi, or use "
                                          "--device cpu",
                                          status == cudaSuccess ? "none was found" : cudaGetErrorString(status)));
  }
  throw Error(Code::failed, "this version of kedge finds the GPU but does not compute on it yet; use --device cpu");
}

}  // namespace kedge::cuda
