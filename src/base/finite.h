// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace kedge {

/// Whether no value is NaN or infinite.
[[nodiscard]] bool all_finite(std::span<const float> values);
[[nodiscard]] bool all_finite(std::span<const double> values);

}  // namespace kedge
