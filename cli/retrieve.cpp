// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
#include "options.h"
#include "row_arguments.h"

#include <fmt/format.h>
#include <kedge/kedge.h>

#include <memory>

namespace kedge::cli {
namespace {

struct Options {
  std::string queries, documents, qrels, exclude;
  RowArguments rows;
  RetrieveOptions retrieve;
  CommonOptions common;
};

void run(const Options& o) {
  o.common.apply();
  const Space queries("queries", open_rows(o.queries));
  Space documents = o.rows.open("documents", open_rows(o.documents));
  if (!o.exclude.empty()) documents = without_rows(documents, documents.with_rows(read_row_ids(o.exclude)));
  const RetrievalScores scores =
      retrieve(queries, documents, read_judgements(o.qrels), o.retrieve, make_progress(o.common));
  const std::vector<std::pair<const char*, std::size_t>> counts{{"queries", scores.queries},
                                                                {"queries_without", scores.without},
                                                                {"documents", scores.documents},
                                                                {"relevant", scores.relevant},
                                                                {"left_out", scores.left_out}};
  if (o.common.json) {
    Json json{{"dim", queries.dim()}};
    for (const auto& [name, count] : counts) json.set(name, count);
    for (const auto& [name, score] : named_scores(scores, o.retrieve)) json.set(name, score);
    print_json(o.common, json);
    return;
  }
  for (const auto& [name, count] : counts) fmt::print("{:<18} {}\n", name, count);
  for (const auto& [name, score] : named_scores(scores, o.retrieve)) fmt::print("{:<18} {:.4f}\n", name, score);
}

}  // namespace

void add_retrieve(CommandLine& line) {
  auto o = std::make_shared<Options>();
  Command& c =
      line.add("retrieve", "Measure a search with judged queries: are the documents at the top the relevant ones?");
  c.add("--queries", o->queries, "Embeddings of the queries").required().takes("FILE");
  c.add("--documents", o->documents, "Embeddings of the documents, in the same space").required().takes("FILE");
  c.add(
       "--qrels", o->qrels,
       "Judgements: an .npy of integers, three in a row: query and document, by their row, and grade (0: not relevant)")
      .required()
      .takes("FILE");
  o->rows.add_to(c, "Documents to search, as FIRST:END [all]");
  c.add("--exclude", o->exclude,
        "Documents to leave out of the search, such as the support of a translation: an .npy of row numbers, or of "
        "booleans with one for each row")
      .takes("FILE");
  add_options(c, options_of(o->retrieve));
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
