// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <cstddef>
#include <memory>
#include <string_view>

namespace kedge::cuda {

/// Throws Error(Code::failed) if so many bytes of the GPU's memory are not free: who needs them, how many are free, and
/// the advice, a clause that says what lowers them.
void require_free(std::size_t bytes, std::string_view who, std::string_view advice);

/// Uninitialised memory of the GPU. Throws Error(Code::failed) that says how much is free if there is too little.
[[nodiscard]] void* allocate(std::size_t bytes);
/// Memory of the host that the GPU copies from and to by itself.
[[nodiscard]] void* allocate_pinned(std::size_t bytes);

struct Release {
  void operator()(void* memory) const noexcept;
};
struct ReleasePinned {
  void operator()(void* memory) const noexcept;
};

/// Uninitialised values in the GPU's memory.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(std::size_t count)
      : memory_(static_cast<T*>(allocate(checked_mul(count, sizeof(T))))), count_(count) {}
  [[nodiscard]] T* data() const { return memory_.get(); }
  [[nodiscard]] std::size_t size() const { return count_; }

 private:
  std::unique_ptr<T, Release> memory_;
  std::size_t count_ = 0;
};

/// Uninitialised values in pinned memory.
template <class T>
class PinnedArray {
 public:
  PinnedArray() = default;
  explicit PinnedArray(std::size_t count)
      : memory_(static_cast<T*>(allocate_pinned(checked_mul(count, sizeof(T))))), count_(count) {}
  [[nodiscard]] T* data() const { return memory_.get(); }
  [[nodiscard]] std::size_t size() const { return count_; }

 private:
  std::unique_ptr<T, ReleasePinned> memory_;
  std::size_t count_ = 0;
};

}  // namespace kedge::cuda
