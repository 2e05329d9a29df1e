// SPDX-License-Identifier: Apache-2.0
#include "base/option.h"
#include "base/refuse.h"

#include <kedge/retrieve.h>
#include <kedge/rows.h>

namespace kedge {

std::vector<Option> options_of(RetrieveOptions& options) {
  return {count_option("k", "Documents of each query that nDCG and MRR look at", options.k, 1),
          count_option("recall-k", "Documents of each query that recall looks at", options.recall_k, 1),
          name_option("similarity", "How to compare a query with a document", options.similarity)};
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
