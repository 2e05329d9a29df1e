// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/moments.h>

namespace kedge {

/// The highest sums that moments are to have. Only Ledoit-Wolf looks at more than the second.
enum class Highest { second, fourth };

/// As the public overload, which takes every sum that the device supports.
[[nodiscard]] Moments compute_joint_moments(std::span<const Space> spaces, Device device, Highest highest,
                                            const Progress& progress = {});

/// Adds finite rows of all spaces side by side, rows x dim(), which it overwrites, and no support.
void add_and_overwrite(Moments& moments, MatrixView<double> rows);

/// Throws Error(Code::bad_file) for a space whose rows are all the same, or beyond float32, in which maps are kept.
/// `rows` is what messages call the rows of each space.
void require_variation(const Moments& moments, std::span<const std::string> rows);

/// Throws Error(Code::bad_file) if values were so large that their sums are not finite.
void require_sums(const Moments& moments);

}  // namespace kedge
