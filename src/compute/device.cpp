// SPDX-License-Identifier: Apache-2.0
#include "compute/device.h"

#include "base/wording.h"
#include "compute/cuda/cuda.h"
#include "compute/threads.h"

#include <cblas.h>
#include <unistd.h>

#include <system_error>

namespace kedge {
namespace {

constexpr Names<Device, 2> kDeviceNames{"device", {"cpu", "cuda"}};
constexpr Names<Precision, 3> kPrecisionNames{"precision", {"fp32", "tf32", "bf16"}};

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

std::string_view to_string(Device device) {
  return kDeviceNames.of(device);
}
Device parse_device(std::string_view name) {
  return kDeviceNames.parse(name);
}
std::vector<std::string_view> device_names() {
  return kDeviceNames.all();
}

std::string_view to_string(Precision precision) {
  return kPrecisionNames.of(precision);
}
Precision parse_precision(std::string_view name) {
  return kPrecisionNames.parse(name);
}
std::vector<std::string_view> precision_names() {
  return kPrecisionNames.all();
}

std::vector<DeviceInfo> devices() {
  const auto memory = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE));
  const std::string name = fmt::format("processor, {} threads, OpenBLAS for {}", threads(), openblas_get_corename());
  std::vector<DeviceInfo> all{{Device::cpu, name, memory}};
  for (DeviceInfo& gpu : cuda::devices()) all.push_back(std::move(gpu));
  return all;
}

// OpenBLAS takes an x86 processor younger than itself for one of 2004, and multiplies at a quarter of its speed.
std::string better_blas_kernels() {
#ifdef __x86_64__
  const bool taken_for_old = std::string_view(openblas_get_corename()) == "Prescott";
  if (taken_for_old && __builtin_cpu_supports("avx512vl")) return "SkylakeX";
  if (taken_for_old && __builtin_cpu_supports("avx2")) return "Haswell";
#endif
  return {};
}

void require_device(Device device) {
  const Work work;  // to ask selects nothing
  if (device == Device::cuda) cuda::require();
}

void require_precision(Device device, Precision precision) {
  if (device != Device::cpu || precision != Precision::bf16) return;
  refuse("precision bf16 is for learning on a GPU, but the device is the processor; use {} or {}",
         option_words("precision", "fp32"), option_words("device", "cuda"));
}

bool off_processor(Device device) {
  return device != Device::cpu;
}

std::jthread prepare(Device device) {
  if (!off_processor(device)) return {};
  try {
    return std::jthread(cuda::warm_up);
  } catch (const std::system_error&) {
    return {};
  }
}

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
