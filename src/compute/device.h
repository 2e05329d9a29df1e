// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>

#include <thread>

namespace kedge {

/// Whether a device has memory of its own and computes while the processor does something else.
[[nodiscard]] bool off_processor(Device device);

/// Loads what decompositions need on a device, in a thread beside the caller's: loading may take longer than they do.
/// There is no thread if nothing needs loading or none can be started. What fails here fails again, with a message, in
/// the work itself.
[[nodiscard]] std::jthread prepare(Device device);

}  // namespace kedge
