// SPDX-License-Identifier: Apache-2.0
#include <kedge/retrieve.h>

#include "inputs.h"
#include "options.h"
#include "text.h"
#include "work.h"

#include <fmt/format.h>

namespace kedge::python {
namespace {

using namespace nb::literals;
using Rows = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

std::vector<Judgement> to_judgements(const nb::object& given) {
  const nb::object found = nb::module_::import_("kedge._inputs").attr("judgements_of")(given);
  if (nb::isinstance<nb::str>(found) || nb::isinstance<nb::bytes>(found)) return read_judgements(path_of(found));
  const auto rows = nb::cast<Rows>(found);
  std::vector<Judgement> judgements;
  judgements.reserve(rows.shape(0));
  for (std::size_t r = 0; r < rows.shape(0); ++r) {
    const std::int64_t* const row = rows.data() + 3 * r;
    judgements.push_back({row[0], row[1], row[2]});
  }
  return judgements;
}

/// A list for the query numbers and for each score.
nb::dict scores_of_each(const RetrievalScores& scores, const RetrieveOptions& options) {
  nb::dict lists;
  nb::list queries;
  for (const QueryScores& one : scores.each) queries.append(one.query);
  lists["query"] = queries;
  for (const auto& [name, mean] : named_scores(scores, options)) lists[nb::cast(name)] = nb::list();
  for (const QueryScores& one : scores.each) {
    for (const auto& [name, value] : named_scores(one, options)) {
      nb::cast<nb::list>(lists[nb::cast(name)]).append(value);
    }
  }
  return lists;
}

nb::dict retrieve_rows(const nb::object& queries, const nb::object& documents, const nb::object& qrels,
                       const nb::object& rows, const nb::object& exclude, const nb::object& k,
                       const nb::object& recall_k, const nb::object& similarity, bool each,
                       const nb::object& progress) {
  RetrieveOptions options;
  nb::dict values;
  values["k"] = k;
  values["recall_k"] = recall_k;
  values["similarity"] = similarity;
  set_options(options_of(options), values);
  const Input asked(queries, "queries", "the array");
  const Input searched(documents, "documents", "the array");
  const std::vector<Judgement> judgements = to_judgements(qrels);
  const RowChoice chosen = to_rows(rows);
  const RowChoice left_out = to_rows(exclude, "exclude");
  const RetrievalScores scores = run(progress, !asked.is_file() && !searched.is_file(), [&](const Progress& report) {
    Space index = chosen.of("documents", searched.rows());
    if (!exclude.is_none()) index = without_rows(index, left_out.of("documents", searched.rows()));
    return retrieve(Space("queries", asked.rows()), index, judgements, options, report);
  });
  nb::dict found;
  found["dim"] = asked.rows()->cols();
  found["queries"] = scores.queries;
  found["queries_without"] = scores.without;
  found["documents"] = scores.documents;
  found["relevant"] = scores.relevant;
  found["left_out"] = scores.left_out;
  for (const auto& [name, value] : named_scores(scores, options)) found[nb::cast(name)] = value;
  if (each) found["each"] = scores_of_each(scores, options);
  return found;
}

constexpr const char* kRetrieveText =
    R"(Measure a search with judged queries: are the documents at the top the relevant ones?

Parameters
----------
queries, documents : array or path
    Rows of the same space.
qrels : array of integers or path
    Judgements, one in each row: query and document, by their row, and grade. 0 means not relevant; documents that are
    not judged are not relevant either.
rows : slice, (first, end), 'first:end', array of row numbers or mask, optional
    Documents to search; all by default.
exclude : the same, optional
    Documents to leave out of the search, such as the support of a translation.
k : int
    Documents of each query that nDCG and MRR look at.
recall_k : int
    Documents of each query that recall looks at.
similarity : str
    How to compare a query with a document: cosine or inner.
each : bool
    Whether to return the scores of each query too.
progress : bool or callable
    As for fit.

Returns
-------
dict
    dim; queries, those that have a relevant document among the ones searched, and queries_without, those that have none
    and do not count; documents, relevant and left_out (judgements of documents that were not searched); and means over
    the queries: ndcg@k (gain is the grade, discount log2(rank + 1)), recall@recall_k and mrr@k. Of equally similar
    documents the first in the file is first. With each=True also each, a dict of lists: query, the rows of the queries
    that count, and their scores by the same names.
)";

}  // namespace

void bind_retrieve(nb::module_& module) {
  const RetrieveOptions defaults;
  module.def("retrieve", &retrieve_rows, "queries"_a, "documents"_a, "qrels"_a, nb::kw_only(), "rows"_a = nb::none(),
             "exclude"_a = nb::none(), "k"_a = defaults.k, "recall_k"_a = defaults.recall_k,
             "similarity"_a = std::string(to_string(defaults.similarity)), "each"_a = false, "progress"_a = false,
             kRetrieveText);
}

}  // namespace kedge::python
