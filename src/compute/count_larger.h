// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/matrix.h>

#include <cstddef>
#include <functional>
#include <span>

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

}  // namespace kedge
