// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/fit.h>

#include <span>

namespace kedge {

/// What fit() can refuse before any row is read: numbers out of range and options that cannot go together, whether or
/// not the method uses them, because a bundle keeps them all. Throws Error(Code::bad_argument).
void require_valid(std::span<const Space> spaces, const FitOptions& options);

/// Refuses options that belong to a method other than the chosen one, which would otherwise be ignored in silence.
/// Whoever shares one set of options between several methods does not call this. Throws Error(Code::bad_argument).
void require_own_options(const FitOptions& options);

}  // namespace kedge
