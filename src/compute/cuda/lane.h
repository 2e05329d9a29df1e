// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cuda/check.h"
#include "compute/cuda/memory.h"

#include <kedge/device.h>

#include <cublasLt.h>

#include <cstddef>
#include <memory>
#include <type_traits>

namespace kedge::cuda {

struct DestroyStream {
  void operator()(cudaStream_t stream) const noexcept { (void)cudaStreamDestroy(stream); }
};
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;
/// Does not wait for the legacy stream, nor make it wait.
[[nodiscard]] Stream make_stream();

struct DestroyEvent {
  void operator()(cudaEvent_t event) const noexcept { (void)cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;
/// Orders work of streams; tells no time.
[[nodiscard]] Event make_event();

struct DestroyBlas {
  void operator()(cublasHandle_t handle) const noexcept { (void)cublasDestroy(handle); }
};

/// For float32 matrices. bf16 is tf32 here: only what is narrow in memory is multiplied narrow, as to narrow it for one
/// product would not pay.
[[nodiscard]] cublasComputeType_t compute_type(Precision precision);

/// A stream, and cuBLAS on it with a workspace of its own: so products of several lanes may overlap, always give the
/// same bits, and allocate nothing while a graph is captured.
class Lane {
 public:
  Lane();
  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }
  [[nodiscard]] cublasHandle_t blas() const { return blas_.get(); }
  /// A handle of cuBLAS holds one of cuBLASLt, and may stand in its place.
  [[nodiscard]] cublasLtHandle_t light() const { return reinterpret_cast<cublasLtHandle_t>(blas()); }
  /// Where its last operation ends; other lanes wait for it.
  [[nodiscard]] cudaEvent_t end() const { return end_.get(); }
  [[nodiscard]] void* workspace() const { return workspace_.data(); }
  void wait() const { check(cudaStreamSynchronize(stream()), "while it worked"); }

  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what cuBLAS wants on Hopper

 private:
  Stream stream_;
  Event end_;
  DeviceArray<std::byte> workspace_;
  std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, DestroyBlas> blas_;
};

}  // namespace kedge::cuda
