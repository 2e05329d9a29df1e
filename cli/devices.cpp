// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
#include "console.h"

#include <fmt/format.h>
#include <kedge/kedge.h>

#include <memory>

namespace kedge::cli {
namespace {

void run(const CommonOptions& common) {
  common.apply();
  Json all = Json::array();
  for (const DeviceInfo& device : devices()) {
    all.push_back({{"device", to_string(device.kind)}, {"name", device.name}, {"memory_bytes", device.memory_bytes}});
    if (common.json) continue;
    fmt::print("{:<5} {} ({:.1f} GiB)\n", to_string(device.kind), device.name,
               static_cast<double>(device.memory_bytes) / (1U << 30));
  }
  print_json(common, all);
  if (all.size() > 1) return;
  try {
    require_device(Device::cuda);
  } catch (const Error& reason) {
    say(common, reason.message(Vocabulary::command));
  }
}

}  // namespace

void add_devices(CommandLine& line) {
  auto common = std::make_shared<CommonOptions>();
  Command& c = line.add("devices", "List the devices kedge can compute on");
  common->add_to(c);
  c.runs([common] { run(*common); });
}

}  // namespace kedge::cli
