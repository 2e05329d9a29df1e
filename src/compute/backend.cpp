// SPDX-License-Identifier: Apache-2.0
#include "compute/backend.h"

#include "compute/cuda/cuda.h"

#include <utility>

namespace kedge {
namespace {

/// For a backend that gains nothing from knowing the sequence beforehand.
class PlainRecording final : public Recording {
 public:
  explicit PlainRecording(std::function<void()> work) : work_(std::move(work)) {}
  void run(std::size_t times) override {
    for (std::size_t i = 0; i < times; ++i) work_();
  }

 private:
  std::function<void()> work_;
};

}  // namespace

void Backend::side_by_side(std::size_t count, const std::function<void(std::size_t)>& work) {
  for (std::size_t i = 0; i < count; ++i) work(i);
}

void Backend::beside(const std::function<void()>& first, const std::function<void()>& second) {
  first();
  second();
}

std::unique_ptr<Recording> Backend::record(std::function<void()> work) {
  return std::make_unique<PlainRecording>(std::move(work));
}

void Backend::require_memory(std::size_t, std::string_view, std::string_view) {}

std::unique_ptr<Backend> make_backend(Device device, Precision precision) {
  require_device(device);
  require_precision(device, precision);
  return device == Device::cuda ? cuda::make_backend(precision) : make_cpu_backend();
}

}  // namespace kedge
