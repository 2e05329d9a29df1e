// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/statistics.h"

#include <kedge/fit.h>

#include <cstdint>
#include <span>
#include <vector>

namespace kedge {

/// The file rows that are the support, if none has to be read to know: ids that were given, or drawn at random; none
/// otherwise. Throws Error(Code::bad_argument) for what cannot be a support, and for more anchors than it will have
/// rows.
[[nodiscard]] std::vector<std::int64_t> known_support(std::span<const Space> spaces, const FitOptions& options);

/// Selects the support if it depends on the rows; they are then read once more, into one matrix of all spaces. Every
/// space weighs the same: its mean squared length is 1. For cosine every single row's is, so leverage is random.
[[nodiscard]] std::vector<std::int64_t> select_support(std::span<const Space> spaces,
                                                       std::span<const Statistics> statistics,
                                                       const FitOptions& options, const Progress& progress);

}  // namespace kedge
