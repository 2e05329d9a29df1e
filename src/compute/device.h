// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>

#include <thread>

namespace kedge {

/// Whether a device has memory of its own and computes while the processor does something else.
[[nodiscard]] bool off_processor(Device device);

/// Loads what decompositions need on a device, in a thread beside the caller's: that may take longer than they do. No
/// thread if there is nothing to load or none can be started; whatever fails will fail again, and be told, later.
[[nodiscard]] std::jthread prepare(Device device);

}  // namespace kedge
