// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/matrix.h>

#include <cstdint>
#include <functional>

namespace kedge {

/// Products of unit rows in float32 that are nearer to each other than this may be in the wrong order: several times
/// their rounding error.
[[nodiscard]] float near_tie(std::size_t dim);

[[nodiscard]] double exact_product(std::span<const float> a, std::span<const float> b);

/// The key whose place among the others is wanted.
struct CountedKey {
  std::size_t number = 0;
  double product = 0;     ///< exact_product of the query with it
  bool in_order = false;  ///< whether an equal key of a smaller number comes before it
};

/// How many of some keys come before `counted`. `products` are those of the query with `keys` in float32, good to
/// `near`; the number of the first is `first_key`. They decide all but near ties, which are decided in float64, so
/// equal rows are never apart because of how a product was rounded.
[[nodiscard]] std::size_t count_before(const CountedKey& counted, std::span<const float> products,
                                       std::span<const float> query, MatrixView<const float> keys,
                                       std::size_t first_key, float near);

/// counts[i] += the keys whose product with query i is larger than that of key i, by count_before(); queries and keys
/// are unit rows. `tell`, called by one thread at a time, hears how many queries are done.
void count_larger(MatrixView<const float> queries, MatrixView<const float> keys, std::span<std::size_t> counts,
                  Device device, const std::function<void(std::size_t)>& tell);

/// Whether this build has FAISS; without it the next two throw Error(Code::failed) that says how to get it.
[[nodiscard]] bool have_faiss();

/// Lloyd's k-means by FAISS: for each point the number of its cluster. A cluster may end empty.
[[nodiscard]] std::vector<std::size_t> kmeans_clusters(MatrixView<const float> points, std::size_t clusters,
                                                       std::uint64_t seed);

/// For each query the `count` keys of largest inner product, best first: queries.rows * count key numbers.
[[nodiscard]] std::vector<std::int64_t> nearest_by_inner_product(MatrixView<const float> queries,
                                                                 MatrixView<const float> keys, std::size_t count);

/// `count` different rows, the first at random and each other the farthest from those before; 1 <= count <= rows.
[[nodiscard]] std::vector<std::size_t> farthest_rows(MatrixView<const float> rows, std::size_t count,
                                                     std::uint64_t seed);

}  // namespace kedge
