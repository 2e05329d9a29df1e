// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/progress.h>
#include <kedge/space.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kedge {

/// By what a search orders documents.
enum class SearchBy {
  cosine,  ///< of the angle between query and document; 0 if one of them is a row of zeros
  inner,   ///< inner product of the rows as they are
};

[[nodiscard]] std::string_view to_string(SearchBy by);
/// Throws Error(Code::bad_argument) that lists the names.
[[nodiscard]] SearchBy parse_search_by(std::string_view name);
[[nodiscard]] std::vector<std::string_view> search_by_names();

struct RetrieveOptions {
  std::size_t k = 10;          ///< how many documents of a query nDCG and MRR look at
  std::size_t recall_k = 100;  ///< how many recall looks at
  SearchBy similarity = SearchBy::cosine;
};

/// How relevant a document is to a query, both by their row in the file: 0 for not at all.
struct Judgement {
  std::int64_t query = 0, document = 0, grade = 0;
};

/// Reads rows of query, document, grade as integers of any width, from `.npy` or `.safetensors#tensor`.
/// Throws Error(Code::bad_file) for any other shape or type.
[[nodiscard]] std::vector<Judgement> read_judgements(const std::string& path);

/// What one query scores.
struct QueryScores {
  std::int64_t query = 0;  ///< its row in the file
  double ndcg = 0, recall = 0, mrr = 0;
};

/// Means over the queries that count: those for which a document of a grade above 0 is among the documents searched.
struct RetrievalScores {
  /// Sum of grade / log2(rank + 1) over the first k documents, as a share of the largest sum that any order reaches.
  double ndcg = 0;
  double recall = 0;        ///< share of the relevant documents that are among the first recall_k
  double mrr = 0;           ///< 1 / rank of the first relevant document, 0 if that is beyond k
  std::size_t queries = 0;  ///< that count
  std::size_t without = 0;  ///< queries that do not count
  std::size_t documents = 0;
  std::size_t relevant = 0;       ///< judgements of a grade above 0 that count
  std::size_t left_out = 0;       ///< judgements of documents that were not searched
  std::vector<QueryScores> each;  ///< of the queries that count, in the order of the file
};

/// Searches the documents with every judged query; of equally similar documents the first in the file comes first.
/// Holds the queries, their relevant documents and blocks of the others, never all documents. Throws
/// Error(Code::bad_argument) for widths that differ, judgements that are repeated, negative or of no row, and if no
/// query counts.
[[nodiscard]] RetrievalScores retrieve(const Space& queries, const Space& documents,
                                       std::span<const Judgement> judgements, const RetrieveOptions& options = {},
                                       const Progress& progress = {});
[[nodiscard]] RetrievalScores retrieve(MatrixView<const float> queries, MatrixView<const float> documents,
                                       std::span<const Judgement> judgements, const RetrieveOptions& options = {},
                                       const Progress& progress = {});

/// The rows of a space but for those of another space of the same file: documents without the support of a translation,
/// say. Throws Error(Code::bad_argument) if none is left.
[[nodiscard]] Space without_rows(const Space& space, const Space& left_out);

/// What was measured, under the names users know: ndcg@10, recall@100, mrr@10.
[[nodiscard]] std::vector<std::pair<std::string, double>> named_scores(const RetrievalScores& scores,
                                                                       const RetrieveOptions& options);
/// The same of one query.
[[nodiscard]] std::vector<std::pair<std::string, double>> named_scores(const QueryScores& scores,
                                                                       const RetrieveOptions& options);

}  // namespace kedge
