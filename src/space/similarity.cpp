// SPDX-License-Identifier: Apache-2.0
#include "base/names.h"

#include <kedge/similarity.h>

namespace kedge {
namespace {

constexpr Names<Similarity, 4> kNames{"similarity", {"wip", "cosine", "euclidean", "inner"}};

}  // namespace

std::string_view to_string(Similarity similarity) {
  return kNames.of(similarity);
}
Similarity parse_similarity(std::string_view name) {
  return kNames.parse(name);
}
std::vector<std::string_view> similarity_names() {
  return kNames.all();
}

}  // namespace kedge
