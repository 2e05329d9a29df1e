// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/lane.h"

namespace kedge::cuda {

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "to make a stream");
  return Stream(stream);
}

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "to make an event");
  return Event(event);
}

cublasComputeType_t compute_type(Precision precision) {
  return precision == Precision::fp32 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32;
}

Lane::Lane() : stream_(make_stream()), end_(make_event()), workspace_(kWorkspaceBytes) {
  cublasHandle_t handle = nullptr;
  check(cublasCreate(&handle), "to start cuBLAS");
  blas_.reset(handle);
  check(cublasSetStream(handle, stream()), "to give cuBLAS a stream");
  check(cublasSetWorkspace(handle, workspace_.data(), kWorkspaceBytes), "to give cuBLAS a workspace");
}

}  // namespace kedge::cuda
