// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/fit.h>

#include <cstddef>
#include <optional>

namespace kedge {

/// What fit() can refuse before any row is read: numbers out of range and options that cannot go together.
/// Throws Error(Code::bad_argument).
void require_valid(std::size_t spaces, const FitOptions& options);

/// The options with all that their effort stands for in a fit of so many spaces.
[[nodiscard]] FitOptions with_effort(FitOptions options, std::size_t spaces);

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

}  // namespace kedge
