// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cuda/check.h"

#include <memory>
#include <type_traits>

namespace kedge::cuda {

struct DestroySolver {
  void operator()(cusolverDnHandle_t handle) const noexcept { (void)cusolverDnDestroy(handle); }
};
struct DestroyParams {
  void operator()(cusolverDnParams_t params) const noexcept { (void)cusolverDnDestroyParams(params); }
};

/// cuSOLVER on a stream, which outlives it.
struct Solver {
  cudaStream_t stream;
  std::unique_ptr<std::remove_pointer_t<cusolverDnHandle_t>, DestroySolver> handle;
  std::unique_ptr<std::remove_pointer_t<cusolverDnParams_t>, DestroyParams> params;

  explicit Solver(cudaStream_t on) : stream(on) {
    cusolverDnHandle_t made = nullptr;
    check(cusolverDnCreate(&made), "to start cuSOLVER");
    handle.reset(made);
    check(cusolverDnSetStream(made, on), "to give cuSOLVER a stream");
    cusolverDnParams_t options = nullptr;
    check(cusolverDnCreateParams(&options), "to start cuSOLVER");
    params.reset(options);
  }
};

}  // namespace kedge::cuda
