// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/fit.h>
#include <kedge/match.h>
#include <kedge/metrics.h>
#include <kedge/options/option.h>
#include <kedge/retrieve.h>

#include <optional>
#include <string>
#include <vector>

namespace kedge {

/// What a user may say of a fit: the options of all methods beside each other, whichever the method is.
struct FitArguments : FitOptions {
  Param param;
  Consensus consensus;
  std::optional<std::size_t> keep;
};

/// The options with their names; they point into `options`, which must outlive the list.
[[nodiscard]] std::vector<Option> options_of(FitArguments& options);
[[nodiscard]] std::vector<Option> options_of(Param& options);
[[nodiscard]] std::vector<Option> options_of(AttachOptions& options);
[[nodiscard]] std::vector<Option> options_of(MatchOptions& options);
[[nodiscard]] std::vector<Option> options_of(CompareOptions& options);
[[nodiscard]] std::vector<Option> options_of(RetrieveOptions& options);

/// As users write it: a number, or the name of a rule. Throws Error(Code::bad_argument) that says what can be given.
void set_shrinkage(FitOptions& options, const std::string& text);

/// Refuses options that belong to a method other than the chosen one, which would otherwise be ignored in silence.
/// Whoever shares one set of options between several methods does not call this. Throws Error(Code::bad_argument).
void require_own_options(const FitArguments& options);

/// The method's own options become part of it; those of other methods are left out.
[[nodiscard]] FitOptions fit_options(const FitArguments& options);

}  // namespace kedge
