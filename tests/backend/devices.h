// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/error.h>

#include <optional>
#include <string>

namespace kedge::test {

/// Why nothing can be tested there, if so.
inline std::optional<std::string> missing(Device device) {
  try {
    require_device(device);
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace kedge::test
