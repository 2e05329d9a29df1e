// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/moments.h>

#include <span>
#include <string>

namespace kedge {

/// Throws Error(Code::bad_file) for a space whose rows are all the same, or beyond float32, in which maps are kept.
/// `rows` is what messages call the rows of each space.
void require_variation(const Moments& moments, std::span<const std::string> rows);

/// Throws Error(Code::bad_file) if values were so large that their sums are not finite.
void require_sums(const Moments& moments);

}  // namespace kedge
