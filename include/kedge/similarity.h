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
};

template <>
inline constexpr Names<4> kNamesOf<Similarity>{"similarity", {"wip", "cosine", "euclidean", "inner"}};
inline constexpr NameParser<Similarity> parse_similarity;
inline constexpr NameList<Similarity> similarity_names;

}  // namespace kedge
