// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace kedge {

/// How the mixture that makes anchors out of support rows is found. All but consensus and the adapters are convex.
enum class Method {
  param,       ///< convex mixtures learned by gradient: PARAM, the paper's method
  consensus,   ///< in closed form: what the whitened spaces agree on most; the default of fit()
  random,      ///< support rows drawn at random
  kmeans,      ///< the mean of each cluster of support rows
  fps,         ///< farthest-point: each new anchor is the support row farthest from those before
  procrustes,  ///< adapter of one pair: the first space is rotated onto the second
  ridge,       ///< adapter of one pair: the second space is regressed on the first
  cca,         ///< adapter of one pair: canonical correlations
  kernel,      ///< adapter of one pair: the second space is regressed on the first, and the first on it, by kernels
};

/// Rows of its mixtures are >= 0 and sum to 1.
[[nodiscard]] bool is_convex(Method method);
/// It joins exactly two spaces, directly and not through anchors: a baseline.
[[nodiscard]] bool is_adapter(Method method);

[[nodiscard]] std::string_view to_string(Method method);
/// Throws Error(Code::bad_argument) that lists the names.
[[nodiscard]] Method parse_method(std::string_view name);
[[nodiscard]] std::vector<std::string_view> method_names();

/// Throws Error(Code::bad_argument) unless there are 1 to `support` anchors.
void require_anchors(std::size_t anchors, std::size_t support);

/// A convex mixture P, anchors x support: rows are >= 0 and sum to 1. `support` holds one row per support row, in
/// coordinates where distance means what the similarity means. Same seed, same mixture.
/// Throws Error(Code::bad_argument) if there are more anchors than support rows, or for a method that learns or solves
/// for its mixture rather than choosing it; Error(Code::failed) for k-means in a build without FAISS.
[[nodiscard]] Matrix choose_anchors(Method method, MatrixView<const float> support, std::size_t anchors,
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
