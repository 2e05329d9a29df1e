// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

#include <kedge/device.h>

#include <string>

namespace kedge::python {

void bind_devices(nb::module_& module) {
  module.def(
      "devices",
      [] {
        nb::list list;
        for (const DeviceInfo& device : devices()) {
          nb::dict one;
          one["device"] = std::string(to_string(device.kind));
          one["name"] = device.name;
          one["memory_bytes"] = device.memory_bytes;
          list.append(one);
        }
        return list;
      },
      "The processor, then every usable GPU: a list of dicts with device, name and memory_bytes.");
  module.def("threads", &threads, "How many processor threads kedge uses.");
  module.def("set_threads", &set_threads, nb::arg("count"),
             "Set how many processor threads to use from now on, 1 or more.");
}

}  // namespace kedge::python
