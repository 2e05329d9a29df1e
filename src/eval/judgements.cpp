// SPDX-License-Identifier: Apache-2.0
#include "base/names.h"
#include "base/refuse.h"

#include <kedge/retrieve.h>
#include <kedge/rows.h>

namespace kedge {
namespace {

constexpr Names<SearchBy, 2> kSearchByNames{"similarity", {"cosine", "inner"}};

}  // namespace

std::string_view to_string(SearchBy by) {
  return kSearchByNames.of(by);
}

SearchBy parse_search_by(std::string_view name) {
  return kSearchByNames.parse(name);
}

std::vector<std::string_view> search_by_names() {
  return kSearchByNames.all();
}

std::vector<Judgement> read_judgements(const std::string& path) {
  const std::vector<std::int64_t> values = read_integer_rows(path, 3, "query, document, grade");
  if (values.empty()) refuse_file("{}: it holds no judgements", path);
  std::vector<Judgement> judgements;
  judgements.reserve(values.size() / 3);
  for (std::size_t i = 0; i < values.size(); i += 3) judgements.push_back({values[i], values[i + 1], values[i + 2]});
  return judgements;
}

std::vector<std::pair<std::string, double>> named_scores(const RetrievalScores& scores,
                                                         const RetrieveOptions& options) {
  return {{fmt::format("ndcg@{}", options.k), scores.ndcg},
          {fmt::format("recall@{}", options.recall_k), scores.recall},
          {fmt::format("mrr@{}", options.k), scores.mrr}};
}

}  // namespace kedge
