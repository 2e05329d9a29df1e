// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/fit.h>
#include <kedge/metrics.h>
#include <kedge/options/option.h>
#include <kedge/retrieve.h>

#include <vector>

namespace kedge {

/// The options with their names; they point into `options`, which must outlive the list.
[[nodiscard]] std::vector<Option> options_of(FitOptions& options);
[[nodiscard]] std::vector<Option> options_of(ParamOptions& options);
[[nodiscard]] std::vector<Option> options_of(AttachOptions& options);
[[nodiscard]] std::vector<Option> options_of(CompareOptions& options);
[[nodiscard]] std::vector<Option> options_of(RetrieveOptions& options);

/// As users write it: a number, or the name of a rule. Throws Error(Code::bad_argument) that says what can be given.
void set_shrinkage(FitOptions& options, const std::string& text);

/// Refuses options that belong to a method other than the chosen one, which would otherwise be ignored in silence.
/// Whoever shares one set of options between several methods does not call this. Throws Error(Code::bad_argument).
void require_own_options(const FitOptions& options);

}  // namespace kedge
