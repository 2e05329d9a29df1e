// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fit/attach.h"

#include <kedge/fit.h>

#include <span>

namespace kedge {

/// Joins two spaces directly, the usual way: the first is brought onto the second, and the shared space is the second's
/// own coordinates (for cca, those in which both correlate). It makes targets, mixture and both maps, so that all that
/// can be done with anchors can be done with the baseline.
[[nodiscard]] Learned fit_adapter(std::span<const Statistics> statistics, std::span<const Matrix64> supports,
                                  const Recipe& made, const FitOptions& options, const Progress& progress);

/// Throws Error(Code::bad_argument) unless there are two spaces and the similarity is wip, or inner for the raw rows.
void require_adapter(std::size_t spaces, const FitOptions& options);

}  // namespace kedge
