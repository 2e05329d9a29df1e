// SPDX-License-Identifier: Apache-2.0
// CUDA and its libraries: errors, memory, streams and handles.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>
#include <kedge/matrix.h>

#include <functional>
#include <memory>
#include <string_view>
#include <type_traits>

namespace kedge {
class Recording;
}

namespace kedge::cuda {

/// Throws Error(Code::failed) with CUDA's answer; `doing` completes "the GPU failed".
void check(cudaError_t status, const char* doing);
void check(cublasStatus_t status, const char* doing);
void check(cusolverStatus_t status, const char* doing);
/// Checks the launch of a kernel, which returns nothing itself.
void check_launch(const char* doing);

/// Throws Error(Code::failed) if fewer bytes of GPU memory are free: `who` needs them, `advice` says how to need fewer.
void require_free(std::size_t bytes, std::string_view who, std::string_view advice);

/// Uninitialised memory of the GPU, and memory of the host that the GPU can copy while the host goes on.
[[nodiscard]] void* allocate(std::size_t bytes);
[[nodiscard]] void* allocate_pinned(std::size_t bytes);

template <auto Destroy>
struct Destroyer {
  template <class T>
  void operator()(T* owned) const noexcept {
    (void)Destroy(owned);  // NOLINT(bugprone-multi-level-implicit-pointer-conversion): memory may hold pointers
  }
};
template <class Handle, auto Destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Destroy>>;

/// Uninitialised values.
template <class T, auto Allocate, auto Free>
class Array {
 public:
  Array() = default;
  explicit Array(std::size_t count)
      : memory_(static_cast<T*>(Allocate(checked_mul(count, sizeof(T))))), count_(count) {}
  [[nodiscard]] T* data() const { return memory_.get(); }
  [[nodiscard]] std::size_t size() const { return count_; }

 private:
  std::unique_ptr<T, Destroyer<Free>> memory_;
  std::size_t count_ = 0;
};
template <class T>
using DeviceArray = Array<T, allocate, cudaFree>;
template <class T>
using PinnedArray = Array<T, allocate_pinned, cudaFreeHost>;

/// All of an array as packed rows.
template <class T>
[[nodiscard]] MatrixView<T> packed(const DeviceArray<T>& array, std::size_t rows, std::size_t cols) {
  return {array.data(), rows, cols, cols};
}

using Event = Owned<cudaEvent_t, cudaEventDestroy>;
/// It orders the work of streams, and measures no time.
[[nodiscard]] Event make_event();

/// A stream, and cuBLAS with a workspace of its own on it. So products of several lanes may overlap, always give the
/// same bits, and allocate nothing while a graph is captured. Its end waits for its work: declare it after the memory
/// that its work uses.
class Lane {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what cuBLAS wants on Hopper

  Lane();
  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }
  [[nodiscard]] cublasHandle_t blas() const { return blas_.get(); }
  /// A handle of cuBLAS is one of cuBLASLt too.
  [[nodiscard]] cublasLtHandle_t light() const { return reinterpret_cast<cublasLtHandle_t>(blas()); }
  [[nodiscard]] void* workspace() const { return workspace_.data(); }
  /// Where its last operation ends; other lanes wait for it.
  [[nodiscard]] cudaEvent_t end() const { return end_.get(); }
  void wait() const { check(cudaStreamSynchronize(stream()), "while it worked"); }

  /// Queues a copy of rows within the GPU, or from or to the host.
  template <class T>
  void copy(std::type_identity_t<MatrixView<const T>> from, MatrixView<T> to) const {
    copy_bytes(static_cast<void*>(to.data), to.stride * sizeof(T), static_cast<const void*>(from.data),
               from.stride * sizeof(T), from.cols * sizeof(T), from.rows);
  }
  template <class T>
  void copy(const T* from, T* to, std::size_t count) const {
    copy<T>({from, 1, count, count}, {to, 1, count, count});
  }
  /// A packed copy in the GPU's memory.
  template <class T>
  [[nodiscard]] DeviceArray<std::remove_const_t<T>> copy_of(MatrixView<T> rows) const {
    DeviceArray<std::remove_const_t<T>> array(checked_mul(rows.rows, rows.cols));
    copy(rows, packed(array, rows.rows, rows.cols));
    return array;
  }
  template <class T>
  void clear(T* values, std::size_t count) const {
    check(cudaMemsetAsync(values, 0, count * sizeof(T), stream()), "to clear memory");
  }

 private:
  void copy_bytes(void* to, std::size_t to_stride, const void* from, std::size_t from_stride, std::size_t row,
                  std::size_t rows) const;
  static cudaError_t finish(cudaStream_t stream);

  DeviceArray<std::byte> workspace_;
  Event end_;
  Owned<cudaStream_t, finish> stream_;
  Owned<cublasHandle_t, cublasDestroy> blas_;
};

/// cuSOLVER on a lane, which must outlive it.
struct Solver {
  explicit Solver(const Lane& lane);

  Owned<cusolverDnHandle_t, cusolverDnDestroy> handle;
  Owned<cusolverDnParams_t, cusolverDnDestroyParams> params;
};

/// Work that begins and ends on a lane, as a CUDA graph: running it again costs one launch. Both must outlive it.
[[nodiscard]] std::unique_ptr<Recording> record_graph(const Lane& lane, std::function<void()> work);

}  // namespace kedge::cuda
