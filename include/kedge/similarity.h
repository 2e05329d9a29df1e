// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/names.h>

#include <string_view>
#include <vector>

namespace kedge {

/// How an embedding is compared with an anchor.
enum class Similarity {
  wip,        ///< whitened inner product, (x - mu)^T Sigma_lambda^-1 (a - mu)
  cosine,     ///< of the angle between them
  euclidean,  ///< distance
  inner,      ///< plain inner product
  angular,    ///< 1 - angle / pi
  manhattan,  ///< sum of the differences of all values, without their signs
};

template <>
inline constexpr Names<6> kNamesOf<Similarity>{"similarity",
                                               {"wip", "cosine", "euclidean", "inner", "angular", "manhattan"}};
inline constexpr NameParser<Similarity> parse_similarity;
inline constexpr NameList<Similarity> similarity_names;

}  // namespace kedge
