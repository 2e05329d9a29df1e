// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fit/robust.h"

#include <memory>

namespace kedge {

/// Of `support`, the rows at these positions, or all if there are none; `places` says which of a bundle's support rows
/// those of `support` are, if they are not all.
[[nodiscard]] std::shared_ptr<const KeptRows> keep_rows(const Matrix64& support, std::span<const std::size_t> positions,
                                                        std::span<const std::size_t> places = {});

/// How much of each other source's rows every source's translation should explain, through the shared space.
/// Where the support has fewer rows than values, a pair is left out if less than nothing is expected.
void expect_translations(Learned& learned, std::span<const Matrix64> supports);

/// The same in a bundle that keeps rows, whose translations are regressed pair by pair.
[[nodiscard]] Bundle expect_regressions(Bundle bundle, const Progress& progress);

}  // namespace kedge
