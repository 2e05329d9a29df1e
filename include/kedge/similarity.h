// SPDX-License-Identifier: Apache-2.0
#pragma once

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

[[nodiscard]] std::string_view to_string(Similarity similarity);
/// Throws Error(Code::bad_argument) that lists the names.
[[nodiscard]] Similarity parse_similarity(std::string_view name);
[[nodiscard]] std::vector<std::string_view> similarity_names();

}  // namespace kedge
