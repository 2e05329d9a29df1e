// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/statistics.h"

#include <kedge/fit.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kedge {

/// The options with all that their effort stands for with this input. Throws Error(Code::bad_argument) for those that
/// are out of range, belong to another method, or need rows that the input does not have.
[[nodiscard]] FitOptions settle(const FitInput& input, const FitOptions& asked);

/// Throws Error(Code::bad_argument) unless the parts of the input fit each other and the options.
void require_input(const FitInput& input, const FitOptions& options);

/// Throws Error(Code::bad_argument) for a row that holds NaN or infinity.
void require_finite_rows(const std::string& space, const Matrix64& support);

/// The rows that the bundle was learned from: those of the spaces, or a range that holds as many and all ids.
[[nodiscard]] RowRange rows_of(const FitInput& input);

/// Where each wanted id is among those found. Throws Error(Code::bad_argument), which names some, unless all are.
[[nodiscard]] std::vector<std::size_t> places_of(std::span<const std::int64_t> wanted,
                                                 std::span<const std::int64_t> found, const std::string& whose);

/// Side by side, with the sums that the rule needs.
[[nodiscard]] Moments read_moments(std::span<const Space> spaces, ShrinkageRule rule, Device device,
                                   const Progress& progress);
/// Those of the spaces, by name. Throws Error(Code::bad_argument) if they are of rows of another width.
[[nodiscard]] Moments moments_of(std::span<const Space> spaces, const Moments& known);

/// Of every space, in order.
[[nodiscard]] std::vector<Statistics> statistics_of(std::span<const Moments> moments, const FitOptions& options);

/// Of one space's rows.
[[nodiscard]] Statistics read_statistics(const Space& space, const FitOptions& options);

/// As the public one, for spaces whose statistics are known already. There are moments for a consensus alone.
[[nodiscard]] FitInput read_input(std::span<const Space> spaces, std::span<const Statistics> statistics,
                                  const FitOptions& options, const Progress& progress);

}  // namespace kedge
