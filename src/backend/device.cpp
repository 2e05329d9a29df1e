// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda.h"
#include "backend/threads.h"

#include <fmt/format.h>
#include <kedge/device.h>
#include <unistd.h>

namespace kedge {

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
