// SPDX-License-Identifier: Apache-2.0
#include "compute/device.h"

#include "base/names.h"
#include "base/wording.h"
#include "compute/cuda/cuda.h"
#include "compute/threads.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <unistd.h>

#include <system_error>

namespace kedge {
namespace {

constexpr Names<Device, 2> kDeviceNames{"device", {"cpu", "cuda"}};
constexpr Names<Precision, 3> kPrecisionNames{"precision", {"fp32", "tf32", "bf16"}};

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
  const auto pages = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<DeviceInfo> all{{Device::cpu, fmt::format("processor, {} threads", threads()), pages * page}};
  for (DeviceInfo& gpu : cuda::devices()) all.push_back(std::move(gpu));
  return all;
}

void require_device(Device device) {
  const Work work;  // to ask selects nothing
  if (device == Device::cuda) cuda::require();
}

void require_precision(Device device, Precision precision) {
  if (device != Device::cpu || precision != Precision::bf16) return;
  throw Error(Code::bad_argument,
              fmt::format("precision bf16 is for learning on a GPU, but the device is the processor; use {} or {}",
                          option_words("precision", "fp32"), option_words("device", "cuda")));
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

}  // namespace kedge
