// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <span>

namespace kedge {

/// As for float32, whose own is public.
[[nodiscard]] bool all_finite(std::span<const double> values);

}  // namespace kedge
