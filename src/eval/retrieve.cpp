// SPDX-License-Identifier: Apache-2.0
#include <kedge/retrieve.h>

#include "base/parallel.h"
#include "base/rows.h"
#include "base/wording.h"
#include "compute/neighbors.h"
#include "compute/products.h"
#include "compute/threads.h"

#include <kedge/relative_map.h>
#include <kedge/rows.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <ranges>
#include <tuple>

namespace kedge {
namespace {

constexpr std::size_t kQueries = 256;     // rows of a block of products
constexpr std::size_t kDocuments = 2048;  // columns

/// Rows in the order of the file, in which ties are broken.
Space in_file_order(const Space& space) {
  if (space.is_range()) return space;
  RowIds rows;
  for (std::size_t row = 0; row < space.rows(); ++row) rows.ids.push_back(space.file_row(row));
  std::ranges::sort(rows.ids);
  return space.with_rows(std::move(rows));
}

/// Where a row of the file is in a space that has its rows in the order of the file.
std::optional<std::size_t> place_of(const Space& space, std::int64_t file_row) {
  const auto places = std::views::iota(std::size_t{0}, space.rows());
  const auto place =
      std::ranges::lower_bound(places, file_row, {}, [&](std::size_t row) { return space.file_row(row); });
  if (place == places.end() || space.file_row(*place) != file_row) return std::nullopt;
  return *place;
}

/// The rows at these places, as the search compares them.
Matrix read_places(const Space& space, std::span<const std::size_t> places, SearchBy similarity) {
  RowIds rows;
  for (const std::size_t place : places) rows.ids.push_back(space.file_row(place));
  const Matrix found = space.with_rows(std::move(rows)).read_all();
  return similarity == SearchBy::cosine ? unit_rows(found.view()) : found;
}

void require_row(std::int64_t row, const Space& space, std::size_t judgement) {
  if (row >= 0 && static_cast<std::size_t>(row) < space.source().rows()) return;
  refuse("judgement {} is of row {} of the {}, but {} has rows 0:{}", judgement, row, space.name(),
         space.source().label(), space.source().rows());
}

void require_judgements(std::span<const Judgement> judgements, const Space& queries, const Space& documents) {
  if (judgements.empty()) refuse("there are no judgements; give rows of query, document, grade");
  for (std::size_t i = 0; i < judgements.size(); ++i) {
    require_row(judgements[i].query, queries, i);
    require_row(judgements[i].document, documents, i);
    if (judgements[i].grade < 0) {
      refuse("judgement {} has the grade {}, expected 0 for a document that is not relevant, and more for one that is",
             i, judgements[i].grade);
    }
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (const Judgement& judgement : judgements) pairs.emplace_back(judgement.query, judgement.document);
  std::ranges::sort(pairs);
  if (const auto repeated = std::ranges::adjacent_find(pairs); repeated != pairs.end()) {
    refuse("document {} is judged more than once for query {}; keep one judgement of each pair", repeated->second,
           repeated->first);
  }
}

/// A relevant document that is searched, and how many others are better.
struct Relevant {
  std::size_t query = 0;     ///< among those that count
  std::size_t document = 0;  ///< among those searched
  std::int64_t grade = 0;
  double product = 0;
  std::size_t better = 0;
};

struct Search {
  Matrix queries;                  ///< those that count
  std::vector<std::size_t> asked;  ///< their places
  std::vector<Relevant> relevant;  ///< by query
};

/// Scores of what is to be found, before anything is searched.
Search prepare(const Space& queries, const Space& documents, std::span<const Judgement> judgements, SearchBy similarity,
               std::size_t& left_out) {
  Search search;
  for (const Judgement& judgement : judgements) {
    const auto query = place_of(queries, judgement.query);
    const auto document = place_of(documents, judgement.document);
    left_out += static_cast<std::size_t>(!document);
    if (query && document && judgement.grade > 0) search.relevant.push_back({*query, *document, judgement.grade});
  }
  if (search.relevant.empty()) {
    refuse("no query has a relevant document among the {} that are searched; a grade above 0 makes one relevant",
           documents.rows());
  }
  std::ranges::sort(search.relevant, {}, [](const Relevant& one) { return std::tuple(one.query, one.document); });
  std::vector<std::size_t> asked, judged;
  for (const Relevant& one : search.relevant) {
    asked.push_back(one.query);
    judged.push_back(one.document);
  }
  std::ranges::sort(judged);
  for (auto* places : {&asked, &judged}) places->erase(std::ranges::unique(*places).begin(), places->end());
  search.queries = read_places(queries, asked, similarity);
  const Matrix rows = read_places(documents, judged, similarity);
  for (Relevant& one : search.relevant) {
    one.query = static_cast<std::size_t>(std::ranges::lower_bound(asked, one.query) - asked.begin());
    const auto row = std::ranges::lower_bound(judged, one.document) - judged.begin();
    one.product = exact_product(search.queries.row(one.query), rows.row(static_cast<std::size_t>(row)));
  }
  search.asked = std::move(asked);
  return search;
}

double longest(MatrixView<const float> rows) {
  double most = 0;
  for (std::size_t r = 0; r < rows.rows; ++r) most = std::max(most, as_eigen(rows.row(r)).cast<double>().norm());
  return most;
}

/// Counts what is better than the relevant documents, in blocks of documents. Beyond `cut` it stops counting.
class Counter {
 public:
  Counter(const Search& search, const Space& documents, const RetrieveOptions& options)
      : search_(search),
        documents_(documents),
        options_(options),
        cut_(std::max(options.k, options.recall_k)),
        better_(search.relevant.size()),
        read_(std::min(kDocuments, documents.rows()), documents.dim()),
        products_(std::min(kQueries, search.queries.rows()), kDocuments) {}

  void count(std::size_t first, std::size_t rows) {
    const MatrixView<float> block = read_.view().middle_rows(0, rows);
    documents_.read(first, block);
    if (options_.similarity == SearchBy::cosine) normalize_rows(block);
    const double longest_document = options_.similarity == SearchBy::cosine ? 1 : longest(block);
    std::size_t next = 0;
    for (std::size_t query = 0; query < search_.queries.rows(); query += kQueries) {
      const std::size_t count = std::min(kQueries, search_.queries.rows() - query);
      const MatrixView<const float> asked = search_.queries.view().middle_rows(query, count);
      const float near = nearness(asked, longest_document);
      const MatrixView<float> products{products_.view().data, count, rows, kDocuments};
      set_product(products, asked, as_eigen(block).transpose());
      for (; next < better_.size() && search_.relevant[next].query < query + count; ++next) {
        if (better_[next] >= cut_) continue;
        const Relevant& one = search_.relevant[next];
        better_[next] += count_before({one.document, one.product, true}, products.row(one.query - query),
                                      search_.queries.row(one.query), block, first, near);
      }
    }
  }
  [[nodiscard]] const std::vector<std::size_t>& better() const { return better_; }

 private:
  /// What products in float32 are good to; refuses those that it cannot hold.
  [[nodiscard]] float nearness(MatrixView<const float> asked, double longest_document) const {
    if (options_.similarity == SearchBy::cosine) return near_tie(asked.cols);
    const double largest = longest(asked) * longest_document;
    if (largest > std::numeric_limits<float>::max() / 4) {
      refuse("rows of length {:.2g} in {} have inner products that float32 cannot hold; scale them, or use {}",
             longest_document, documents_.source().label(), option_words("similarity", "cosine"));
    }
    return near_tie(asked.cols) * static_cast<float>(largest) + std::numeric_limits<float>::min();
  }

  const Search& search_;
  const Space& documents_;
  const RetrieveOptions& options_;
  std::size_t cut_;
  std::vector<std::size_t> better_;
  Matrix read_, products_;
};

void count_all(Search& search, const Space& documents, const RetrieveOptions& options, const Progress& progress) {
  std::vector<std::unique_ptr<Counter>> counters;
  std::mutex lock;
  std::size_t done = 0;
  parallel_blocks(documents.rows(), kDocuments, threads(), [&] {
    auto own = std::make_unique<Counter>(search, documents, options);
    const std::scoped_lock adding(lock);
    Counter* const counter = counters.emplace_back(std::move(own)).get();
    return [&, counter](std::size_t first, std::size_t rows) {
      counter->count(first, rows);
      const std::scoped_lock reporting(lock);
      done += rows;
      if (progress) progress({"searching", done, documents.rows(), ""});
    };
  });
  for (const auto& counter : counters) {
    for (std::size_t i = 0; i < search.relevant.size(); ++i) search.relevant[i].better += counter->better()[i];
  }
}

double discounted(std::int64_t grade, std::size_t better) {
  return static_cast<double>(grade) / std::log2(static_cast<double>(better) + 2);
}

QueryScores query_scores(std::int64_t query, std::span<Relevant> relevant, const RetrieveOptions& options) {
  double gained = 0;
  double found = 0;
  std::size_t first = RowRange::kEnd;
  for (const Relevant& one : relevant) {
    if (one.better < options.k) gained += discounted(one.grade, one.better);
    found += static_cast<double>(one.better < options.recall_k);
    first = std::min(first, one.better);
  }
  std::ranges::sort(relevant, std::ranges::greater(), &Relevant::grade);
  double ideal = 0;
  for (std::size_t i = 0; i < std::min(options.k, relevant.size()); ++i) ideal += discounted(relevant[i].grade, i);
  return {query, gained / ideal, found / static_cast<double>(relevant.size()),
          first < options.k ? 1 / static_cast<double>(first + 1) : 0};
}

constexpr Names<SearchBy, 2> kSearchByNames{"similarity", {"cosine", "inner"}};

}  // namespace

RetrievalScores retrieve(const Space& queries, const Space& documents, std::span<const Judgement> judgements,
                         const RetrieveOptions& options, const Progress& progress) {
  const Work work;
  if (queries.dim() != documents.dim()) {
    refuse("the queries have {} values and the documents {}; embed or translate both into one space", queries.dim(),
           documents.dim());
  }
  if (options.k == 0 || options.recall_k == 0) {
    refuse("{} and {} must be 1 or more", option_words("k"), option_words("recall-k"));
  }
  require_judgements(judgements, queries, documents);
  RetrievalScores scores;
  const Space asked = in_file_order(queries);
  const Space searched = in_file_order(documents);
  Search search = prepare(asked, searched, judgements, options.similarity, scores.left_out);
  count_all(search, searched, options, progress);
  for (auto first = search.relevant.begin(); first != search.relevant.end();) {
    const auto last =
        std::find_if(first, search.relevant.end(), [&](const auto& one) { return one.query != first->query; });
    const std::int64_t query = asked.file_row(search.asked[first->query]);
    scores.each.push_back(query_scores(query, {first, last}, options));
    scores.ndcg += scores.each.back().ndcg;
    scores.recall += scores.each.back().recall;
    scores.mrr += scores.each.back().mrr;
    first = last;
  }
  scores.queries = search.queries.rows();
  scores.without = queries.rows() - scores.queries;
  scores.documents = documents.rows();
  scores.relevant = search.relevant.size();
  for (double* mean : {&scores.ndcg, &scores.recall, &scores.mrr}) *mean /= static_cast<double>(scores.queries);
  return scores;
}

RetrievalScores retrieve(MatrixView<const float> queries, MatrixView<const float> documents,
                         std::span<const Judgement> judgements, const RetrieveOptions& options,
                         const Progress& progress) {
  return retrieve(Space("queries", view_rows(queries, "the matrix")),
                  Space("documents", view_rows(documents, "the matrix")), judgements, options, progress);
}

Space without_rows(const Space& space, const Space& left_out) {
  const Space without = in_file_order(left_out);
  RowIds kept;
  for (std::size_t row = 0; row < space.rows(); ++row) {
    if (!place_of(without, space.file_row(row))) kept.ids.push_back(space.file_row(row));
  }
  if (kept.ids.empty()) refuse("all {} rows of the {} are left out; none remains", space.rows(), space.name());
  return space.with_rows(std::move(kept));
}

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
  return named_scores(QueryScores{0, scores.ndcg, scores.recall, scores.mrr}, options);
}

std::vector<std::pair<std::string, double>> named_scores(const QueryScores& scores, const RetrieveOptions& options) {
  return {{fmt::format("ndcg@{}", options.k), scores.ndcg},
          {fmt::format("recall@{}", options.recall_k), scores.recall},
          {fmt::format("mrr@{}", options.k), scores.mrr}};
}

}  // namespace kedge
