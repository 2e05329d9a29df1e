// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda.h"
#include "backend/threads.h"
#include "base/names.h"

#include <kedge/device.h>
#include <unistd.h>

namespace kedge {
namespace {

constexpr Names<Device, 2> kNames{"device", {"cpu", "cuda"}};
constexpr Names<Precision, 3> kPrecisions{"precision", {"fp32", "tf32", "bf16"}};

}  // namespace

std::string_view to_string(Device device) {
  return kNames.of(device);
}
Device parse_device(std::string_view name) {
  return kNames.parse(name);
}

std::vector<std::string_view> device_names() {
  return kNames.all();
}

std::string_view to_string(Precision precision) {
  return kPrecisions.of(precision);
}
Precision parse_precision(std::string_view name) {
  return kPrecisions.parse(name);
}
std::vector<std::string_view> precision_names() {
  return kPrecisions.all();
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

}  // namespace kedge
