// SPDX-License-Identifier: Apache-2.0
#include "base/names.h"

#include <kedge/similarity.h>
#include <kedge/support.h>
#include <kedge/whitening.h>

namespace kedge {
namespace {

constexpr Names<Similarity, 6> kSimilarityNames{"similarity",
                                                {"wip", "cosine", "euclidean", "inner", "angular", "manhattan"}};
constexpr Names<SupportSelect, 4> kSupportSelectNames{"way to select the support",
                                                      {"random", "fps", "kmeans", "leverage"}};
constexpr Names<ShrinkageRule, 3> kShrinkageRuleNames{"shrinkage rule", {"fixed", "ledoit-wolf", "oas"}};

}  // namespace

std::string_view to_string(Similarity similarity) {
  return kSimilarityNames.of(similarity);
}

Similarity parse_similarity(std::string_view name) {
  return kSimilarityNames.parse(name);
}

std::vector<std::string_view> similarity_names() {
  return kSimilarityNames.all();
}

std::string_view to_string(SupportSelect select) {
  return kSupportSelectNames.of(select);
}

SupportSelect parse_support_select(std::string_view name) {
  return kSupportSelectNames.parse(name);
}

std::vector<std::string_view> support_select_names() {
  return kSupportSelectNames.all();
}

std::string_view to_string(ShrinkageRule rule) {
  return kShrinkageRuleNames.of(rule);
}

ShrinkageRule parse_shrinkage_rule(std::string_view name) {
  return kShrinkageRuleNames.parse(name);
}

}  // namespace kedge
