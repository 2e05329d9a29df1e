// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/whitening.h"

#include <kedge/fit.h>

#include <cstddef>

namespace kedge {

/// What fit() can refuse before any row is read: numbers out of range and options that cannot go together.
/// Throws Error(Code::bad_argument).
void require_valid(std::size_t spaces, const FitOptions& options);

/// The options with all that their effort stands for in a fit of so many spaces: refinement only if there are rows
/// beside the support to learn from, since on the support alone it takes long and gains nothing.
[[nodiscard]] FitOptions with_effort(FitOptions options, std::size_t spaces, bool others);
/// Whether so many rows are more than the support.
[[nodiscard]] bool has_others(const FitOptions& options, std::size_t rows);

/// What a fit with these options refines by; null if it does not.
[[nodiscard]] const Refinement* refinement_of(const FitOptions& options);

/// How a fit with these options makes maps.
[[nodiscard]] AttachBy attach_by(const FitOptions& options);
/// How a space is attached to a bundle.
[[nodiscard]] AttachBy attach_by(const Bundle& bundle, const AttachOptions& options);

/// Whether a fit with these options makes maps by kernel.
[[nodiscard]] bool makes_kernels(const FitOptions& options);

/// A strength or a kernel for another way to attach than this is a mistake: throws Error(Code::bad_argument).
void require_regression_options(AttachBy by, const std::optional<double>& ridge, const KernelOptions& kernel);

/// How many support rows a fit on so many rows will have.
[[nodiscard]] std::size_t support_size(const FitOptions& options, std::size_t rows);

/// How many anchors are asked for, or the default: no more than support rows.
[[nodiscard]] std::size_t anchor_count(const FitOptions& options, std::size_t rows);

/// Throws what fit() would throw before it reads any row.
void require_fit(std::span<const Space> spaces, const FitOptions& options);

/// As the public fit(), for spaces whose statistics are known already, in the order of the spaces. It does not check
/// whether rows belong together, nor whether all options belong to the method, and foretells no translations.
[[nodiscard]] Bundle fit(std::span<const Space> spaces, std::vector<Statistics> statistics, const FitOptions& options,
                         const Progress& progress);

/// The options with all that their effort stands for with this input. Throws Error(Code::bad_argument) for those that
/// are out of range, belong to another method, or need rows that the input does not have.
[[nodiscard]] FitOptions settle(const FitInput& input, const FitOptions& asked);

/// Throws Error(Code::bad_argument) unless the parts of the input fit each other and the options.
void require_input(const FitInput& input, const FitOptions& options);

/// Throws Error(Code::bad_argument) for a support id that is there twice.
void require_no_repeats(std::span<const std::int64_t> ids);
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

/// The file rows that are the support, if none has to be read to know: ids that were given, or drawn at random; none
/// otherwise. Throws Error(Code::bad_argument) for what cannot be a support, and for more anchors than it has rows.
[[nodiscard]] std::vector<std::int64_t> known_support(std::span<const Space> spaces, const FitOptions& options);

/// Selects the support if it depends on the rows; they are then read once more, into one matrix of all spaces. Every
/// space weighs the same: its mean squared length is 1. For cosine every single row's is, so leverage is random.
[[nodiscard]] std::vector<std::int64_t> select_support(std::span<const Space> spaces,
                                                       std::span<const Statistics> statistics,
                                                       const FitOptions& options, const Progress& progress);

}  // namespace kedge
