// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/moments.h>

#include <cstdint>
#include <span>

namespace kedge {

/// The highest sums that moments are to have. Only Ledoit-Wolf looks at more than the second.
enum class Highest { second, fourth };

/// As the public overloads, which take every sum that the device supports.
void add_moments(Moments& moments, std::span<const Space> spaces, std::span<const std::int64_t> ids,
                 const Progress& progress, Device device, Highest highest);
[[nodiscard]] Moments compute_joint_moments(std::span<const Space> spaces, const Progress& progress, Device device,
                                            Highest highest);

}  // namespace kedge
