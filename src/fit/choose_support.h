// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/statistics.h"

#include <kedge/fit.h>

#include <span>

namespace kedge {

/// Puts the support into the bundle where no row has to be read for it: ids that were given, or drawn at random.
/// Throws Error(Code::bad_argument) for what cannot be a support, and for more anchors than it will have rows.
void prepare_support(Bundle& bundle, std::span<const Space> spaces, const FitOptions& options);

/// Selects the support where it depends on the rows; they are then read once more, into one matrix of all spaces.
/// Every space weighs the same: its mean squared length is 1. For cosine every single row's is, so leverage is random.
void select_support(Bundle& bundle, std::span<const Space> spaces, std::span<const Statistics> statistics,
                    const FitOptions& options, const Progress& progress);

}  // namespace kedge
