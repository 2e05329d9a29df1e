// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kedge {

/// Whether this build has FAISS; without it the functions below throw Error(Code::failed) that says how to get it.
[[nodiscard]] bool have_faiss();

/// Lloyd's k-means by FAISS: for each point the number of its cluster. A cluster may end empty.
[[nodiscard]] std::vector<std::size_t> kmeans_clusters(MatrixView<const float> points, std::size_t clusters,
                                                       std::uint64_t seed);

/// For each query the `count` keys of largest inner product, best first: queries.rows * count key numbers.
[[nodiscard]] std::vector<std::int64_t> nearest_by_inner_product(MatrixView<const float> queries,
                                                                 MatrixView<const float> keys, std::size_t count);

}  // namespace kedge
