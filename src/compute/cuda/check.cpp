// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/check.h"

#include "base/wording.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <string>

namespace kedge::cuda {
namespace {

[[noreturn]] void fail(const char* doing, const std::string& answer) {
  (void)cudaGetLastError();  // it is told here, and must not be found again by a later check
  throw Error(Code::failed, fmt::format("the GPU failed {}: {}; check it with nvidia-smi, or use {}", doing, answer,
                                        option_words("device", "cpu")));
}

}  // namespace

void check(cudaError_t status, const char* doing) {
  if (status == cudaErrorNoKernelImageForDevice) {
    fail(doing, "this kedge was not built for it; configure with -DCMAKE_CUDA_ARCHITECTURES=native");
  }
  if (status != cudaSuccess) fail(doing, cudaGetErrorString(status));
}

void check(cublasStatus_t status, const char* doing) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(doing, cublasGetStatusString(status));
}

void check(cusolverStatus_t status, const char* doing) {
  if (status != CUSOLVER_STATUS_SUCCESS) fail(doing, fmt::format("cuSOLVER's status {}", static_cast<int>(status)));
}

void check_launch(const char* kernel) {
  check(cudaGetLastError(), kernel);
}

}  // namespace kedge::cuda
