// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fit/attach.h"

namespace kedge {

/// Compares the spaces two by two. Adapters and a consensus lose the support rows that no two spaces agree on; a
/// consensus of more than two keeps the others, with the spaces that are right there. `wrong` tells of each space.
/// Empty if all that are left are right everywhere. Throws Error(Code::bad_argument) if nothing tells right rows from
/// wrong ones.
[[nodiscard]] RightRows leave_out_wrong(FitInput& input, std::span<const Statistics> statistics,
                                        std::vector<std::optional<WrongPairs>>& wrong);

/// Some support rows of every space, and nothing else of it.
void keep_support(FitInput& input, std::span<const std::size_t> positions);

/// Of a row that is right, its position.
[[nodiscard]] std::vector<std::size_t> positions_of(const std::vector<bool>& right);

/// What is known of these support rows, for a regression.
[[nodiscard]] LearnedAnchors anchors_at(const LearnedAnchors& anchors, std::span<const std::size_t> places);

/// A map that was made from some of `support` rows, as a bundle keeps it: a kernel has a row for each, of zeros where
/// there was none.
void spread_kernel(Attachment& attached, std::span<const std::size_t> places, std::size_t support);

/// What the pairs of some support rows of two spaces look like; `ids` are theirs. None if there are too few to tell.
[[nodiscard]] std::optional<WrongPairs> look_for_wrong_pairs(const std::string& partner, MatrixView<const double> from,
                                                             MatrixView<const double> to,
                                                             std::span<const std::int64_t> ids);

/// Which support rows of a space to attach are right, by the bundle's targets.
[[nodiscard]] std::vector<std::size_t> right_places(const LearnedAnchors& anchors, const std::string& space,
                                                    const Matrix64& support, WrongPairs& wrong);

}  // namespace kedge
