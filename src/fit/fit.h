// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fit/judge.h"
#include "space/statistics.h"

#include <kedge/fit.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kedge {

/// What a fit learns from. No file is known here.
struct FitInput {
  std::vector<Statistics> statistics;  ///< of each source
  std::optional<Moments> joint;        ///< of all of them side by side, for a consensus
  SupportRows support;
  std::span<const Space> rows;  ///< all rows, for what learns by gradient; empty where there are none
};

/// A bundle that says how it will be made, after everything is refused that can be before a row is read.
/// Throws Error(Code::bad_argument).
[[nodiscard]] Bundle begin_bundle(std::span<const std::string> sources, RowRange rows, const FitOptions& options);

/// A range that holds so many rows and all of these ids, whatever the rows are numbered by.
[[nodiscard]] RowRange range_of(std::size_t rows, std::span<const std::int64_t> ids);

/// Completes a bundle that was begun, with maps for all sources. Support rows that the mixture does not keep leave the
/// input.
void complete_bundle(Bundle& bundle, FitInput& input, const FitOptions& options, const Progress& progress);

}  // namespace kedge
