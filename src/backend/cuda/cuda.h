// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>

#include <vector>

// Implemented in cuda/devices.cpp, or in cuda_absent.cpp for a build without CUDA.
namespace kedge::cuda {

/// Every GPU that can be used now; none where there is no CUDA, no driver or no GPU.
[[nodiscard]] std::vector<DeviceInfo> devices();
/// Throws Error(Code::failed) that says what is missing and how to get it.
void require();

}  // namespace kedge::cuda
