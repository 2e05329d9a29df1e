// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"
#include "command_line.h"
#include "commands.h"
#include "options.h"
#include "row_arguments.h"

#include <fmt/format.h>
#include <kedge/kedge.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

namespace kedge::cli {
namespace {

/// What a score must reach: a number, or a share of what another search of the same documents scores.
struct Gate {
  std::string score, queries, documents;
  double least = 0;
};

struct Options {
  std::string queries, documents, qrels, exclude, at_least;
  RowArguments rows;
  RetrieveOptions retrieve;
  CommonOptions common;
};

/// "NAME=LEAST" or "NAME=SHARE:QUERIES,DOCUMENTS"; none if nothing was given.
std::optional<Gate> parse_gate(const Options& o) {
  if (o.at_least.empty()) return std::nullopt;
  Gate gate;
  const std::size_t equals = o.at_least.find('='), colon = o.at_least.find(':', equals);
  gate.score = o.at_least.substr(0, equals);
  const std::string number = equals < colon ? o.at_least.substr(equals + 1, colon - equals - 1) : "";
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), gate.least);
  bool good = problem == std::errc() && end == number.data() + number.size() && gate.least > 0;
  if (colon != std::string::npos) {
    const std::size_t comma = o.at_least.rfind(',');
    good = good && comma != std::string::npos && comma > colon + 1 && comma + 1 < o.at_least.size();
    gate.queries = o.at_least.substr(colon + 1, comma - colon - 1);
    gate.documents = o.at_least.substr(comma + 1);
  }
  const auto names = named_scores(QueryScores{}, o.retrieve);
  good = good && std::ranges::any_of(names, [&](const auto& one) { return one.first == gate.score; });
  if (good) return gate;
  throw Error(Code::bad_argument,
              fmt::format("--at-least takes NAME=LEAST or NAME=SHARE:QUERIES,DOCUMENTS, where NAME is {}, {} or {} and "
                          "the number is above 0, not '{}'",
                          names[0].first, names[1].first, names[2].first, o.at_least));
}

RetrievalScores search(const Options& o, const std::string& queries, const std::string& documents) {
  Space searched = o.rows.open("documents", open_rows(documents));
  if (!o.exclude.empty()) searched = without_rows(searched, searched.with_rows(read_row_ids(o.exclude)));
  return retrieve(Space("queries", open_rows(queries)), searched, read_judgements(o.qrels), o.retrieve,
                  make_progress(o.common));
}

/// A score of each query.
std::vector<double> each(const RetrievalScores& scores, const std::string& name, const RetrieveOptions& options) {
  std::vector<double> values;
  for (const QueryScores& one : scores.each) {
    const auto named = named_scores(one, options);
    values.push_back(std::ranges::find(named, name, [](const auto& own) { return own.first; })->second);
  }
  return values;
}

/// A mean, or the quotient of two over the same queries, with the bounds that 95 % of its bootstrap over queries is in.
struct Interval {
  double value = 0, low = 0, high = 0;
};

Interval interval_of(const std::vector<double>& values, const std::vector<double>& others) {
  constexpr std::size_t kResamples = 2000;
  Random random(0);
  std::vector<double> found;
  for (std::size_t resample = 0; resample <= kResamples; ++resample) {
    double sum = 0, other = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t query = resample == 0 ? i : random.below(values.size());
      sum += values[query];
      other += others.empty() ? 1 : others[query];
    }
    found.push_back(other > 0 ? sum / other : 0);
  }
  const double value = found.front();
  found.erase(found.begin());
  std::ranges::sort(found);
  constexpr double kOutside = 0.025;
  const auto at = [&](double share) { return found[static_cast<std::size_t>(share * (kResamples - 1))]; };
  return {value, at(kOutside), at(1 - kOutside)};
}

Interval measure(const Gate& gate, const RetrievalScores& scores, const Options& o) {
  std::vector<double> others;
  if (!gate.documents.empty()) {
    const RetrievalScores other = search(o, gate.queries, gate.documents);
    if (!std::ranges::equal(other.each, scores.each, {}, &QueryScores::query, &QueryScores::query)) {
      throw Error(Code::bad_argument,
                  fmt::format("{} queries have a relevant document among those of {}, and {} among those of {}; "
                              "compare searches of the same documents",
                              other.queries, gate.documents, scores.queries, o.documents));
    }
    others = each(other, gate.score, o.retrieve);
  }
  return interval_of(each(scores, gate.score, o.retrieve), others);
}

/// Exit status 4 unless the lower end of the interval reaches what was asked for.
void require(const Gate& gate, const Interval& found) {
  if (found.low >= gate.least) return;
  throw NotGoodEnough(fmt::format(
      "{} is {:.4f}{}, but its 95 % interval begins at {:.4f}, and at least {} was asked for", gate.score, found.value,
      gate.documents.empty() ? "" : " of what " + gate.documents + " scores", found.low, gate.least));
}

void run(const Options& o) {
  o.common.apply();
  const std::optional<Gate> gate = parse_gate(o);
  const RetrievalScores scores = search(o, o.queries, o.documents);
  const Interval reached = gate ? measure(*gate, scores, o) : Interval();
  const std::vector<std::pair<const char*, std::size_t>> counts{{"queries", scores.queries},
                                                                {"queries_without", scores.without},
                                                                {"documents", scores.documents},
                                                                {"relevant", scores.relevant},
                                                                {"left_out", scores.left_out}};
  if (o.common.json) {
    Json json{{"dim", open_rows(o.queries)->cols()}};
    for (const auto& [name, count] : counts) json.set(name, count);
    for (const auto& [name, score] : named_scores(scores, o.retrieve)) json.set(name, score);
    if (gate) json.set("at_least", {{"value", reached.value}, {"low", reached.low}, {"high", reached.high}});
    print_json(o.common, json);
    if (gate) require(*gate, reached);
    return;
  }
  for (const auto& [name, count] : counts) fmt::print("{:<18} {}\n", name, count);
  for (const auto& [name, score] : named_scores(scores, o.retrieve)) fmt::print("{:<18} {:.4f}\n", name, score);
  if (!gate) return;
  fmt::print("{:<18} {:.4f} ({:.4f} to {:.4f})\n", gate->documents.empty() ? "at_least" : "share_of_other",
             reached.value, reached.low, reached.high);
  require(*gate, reached);
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
  c.add("--at-least", o->at_least,
        "Exit status 4 unless a score is at least this, as NAME=LEAST such as ndcg@10=0.5; or at least this share of "
        "what another model's queries find in its own documents, as ndcg@10=0.95:QUERIES,DOCUMENTS. The lower end of a "
        "95 % interval over queries decides")
      .takes("GATE");
  add_options(c, options_of(o->retrieve));
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
