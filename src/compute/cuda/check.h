// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>

namespace kedge::cuda {

/// Throws Error(Code::failed) that says what was tried and what CUDA answered; `doing` reads on from "the GPU failed".
void check(cudaError_t status, const char* doing);
void check(cublasStatus_t status, const char* doing);
void check(cusolverStatus_t status, const char* doing);
/// After a kernel's launch, which itself returns nothing.
void check_launch(const char* kernel);

}  // namespace kedge::cuda
