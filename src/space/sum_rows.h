// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/moments.h>

#include <span>

namespace kedge {

/// The highest sums that moments are to have. Only Ledoit-Wolf looks at more than the second.
enum class Highest { second, fourth };

/// As the public overload, which takes every sum that the device supports.
[[nodiscard]] Moments compute_joint_moments(std::span<const Space> spaces, Device device, Highest highest,
                                            const Progress& progress = {});

/// Adds finite rows of all spaces side by side, rows x dim(), which it overwrites, and no support.
void add_and_overwrite(Moments& moments, MatrixView<double> rows);

}  // namespace kedge
