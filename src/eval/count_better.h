// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <cstddef>
#include <span>

namespace kedge {

/// Products of unit rows that are nearer to each other may be in the wrong order: several times what one in float32 is
/// off by.
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
[[nodiscard]] std::size_t count_better(const CountedKey& counted, std::span<const float> products,
                                       std::span<const float> query, MatrixView<const float> keys,
                                       std::size_t first_key, float near);

}  // namespace kedge
