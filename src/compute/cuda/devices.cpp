// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/runtime.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <optional>
#include <string>

namespace kedge::cuda {
namespace {

constexpr int kLeastMajor = 8;  // compute capability; older GPUs have no TF32, and kedge is not built for them

thread_local std::optional<int> before;  // the calling thread's GPU, if require() made another its own

/// Every thread has a current GPU, and in somebody else's program that may not be ours.
void select(int device) {
  int current = 0;
  check(cudaGetDevice(&current), "to be asked for");
  if (current == device) return;
  check(cudaSetDevice(device), "to be selected");
  if (!before) before = current;
}

[[noreturn]] void refuse(const std::string& what, const std::string& advice) {
  throw Error(Code::failed,
              fmt::format("cannot use a GPU: {}; {}, or use {}", what, advice, option_words("device", "cpu")));
}

std::string version_of(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

[[noreturn]] void refuse_driver() {
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);  // leaves 0 if there is none
  (void)cudaRuntimeGetVersion(&runtime);
  if (driver == 0) refuse("no NVIDIA driver was found", "install one");
  refuse(fmt::format("the NVIDIA driver is for CUDA {}, but this kedge was built with CUDA {}", version_of(driver),
                     version_of(runtime)),
         "install a newer driver");
}

[[noreturn]] void refuse_status(cudaError_t status) {
  (void)cudaGetLastError();  // reported here, so a later check must not find it
  if (status == cudaErrorInsufficientDriver) refuse_driver();
  if (status == cudaErrorNoDevice || status == cudaSuccess) {
    refuse("the NVIDIA driver finds none", "look for it with nvidia-smi and check CUDA_VISIBLE_DEVICES");
  }
  refuse(cudaGetErrorString(status), "check the driver with nvidia-smi");
}

}  // namespace

std::vector<DeviceInfo> devices() {
  int count = 0;
  std::vector<DeviceInfo> found;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return found;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess || properties.major < kLeastMajor) continue;
    found.push_back({Device::cuda, properties.name, properties.totalGlobalMem});
  }
  return found;
}

void require() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) refuse_status(status);
  for (int i = 0; i < count; ++i) {
    int major = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i), "to report its compute capability");
    if (major >= kLeastMajor) return select(i);
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "to report its name");
  refuse(fmt::format("the {} has compute capability {}.{}, but {}.0 or more is needed", properties.name,
                     properties.major, properties.minor, kLeastMajor),
         "use an A100 or a newer one");
}

void put_back() noexcept {
  if (before) (void)cudaSetDevice(*before);
  before.reset();
}

}  // namespace kedge::cuda
