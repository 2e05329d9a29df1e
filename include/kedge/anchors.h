// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>
#include <kedge/method.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kedge {

/// Throws Error(Code::bad_argument) unless there are 1 to `support` anchors.
void require_anchors(std::size_t anchors, std::size_t support);

/// A convex mixture P, anchors x support: rows are >= 0 and sum to 1. `support` holds one row per support row, in
/// coordinates where distance means what the similarity means. Same seed, same mixture.
/// Throws Error(Code::bad_argument) for more anchors than support rows; Error(Code::failed) for k-means without FAISS.
[[nodiscard]] Matrix choose_anchors(Choice by, MatrixView<const float> support, std::size_t anchors,
                                    std::uint64_t seed);

/// A mixture of few support rows per anchor, and the columns of the whole mixture that it still has, ascending.
struct SparseMixture {
  Matrix mixture;
  std::vector<std::size_t> columns;
};

/// The `keep` largest weights of every row of a convex mixture, scaled to sum to 1; of equals the first. Columns that
/// are left without a weight go. A `keep` of 0, or of all columns, changes nothing.
/// Throws Error(Code::bad_argument) for a mixture that is not convex.
[[nodiscard]] SparseMixture keep_largest(Matrix mixture, std::size_t keep);

}  // namespace kedge
