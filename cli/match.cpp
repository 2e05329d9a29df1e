// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
#include "console.h"
#include "io/outputs.h"
#include "options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/kedge.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>

namespace kedge::cli {
namespace {

struct Options {
  std::vector<std::string> spaces;
  std::string output, scores, pairs;
  MatchOptions match;
  CommonOptions common;

  [[nodiscard]] bool writes_bundle() const { return output.ends_with(".kedge"); }
};

/// An input: its row in every space, and the chance that all of them are right.
struct FoundRow {
  std::vector<std::int64_t> places;
  double chance = 1;
};

void require_output(const Options& o) {
  if (o.output.empty()) {
    if (o.scores.empty()) return;
    throw Error(Code::bad_argument, "--scores has a value for each pair that -o writes; give -o pairs.npy too");
  }
  if (!o.writes_bundle() && !o.output.ends_with(".npy")) {
    throw Error(Code::bad_argument, fmt::format("-o says by its ending what to write: FILE.npy for pairs, FILE.kedge "
                                                "for a bundle; found '{}'",
                                                o.output));
  }
  if (o.writes_bundle() && !o.scores.empty()) {
    throw Error(Code::bad_argument,
                "--scores has a value for each pair that -o writes, but a bundle holds no pairs; give -o pairs.npy, or "
                "leave out --scores");
  }
  if (o.writes_bundle() && o.spaces.size() > 2) {
    throw Error(Code::bad_argument,
                fmt::format("-o FILE.kedge is for two spaces, but {} were given; write -o pairs.npy and give that to "
                            "'kedge fit --pairs'",
                            o.spaces.size()));
  }
  if (o.match.disjoint && !o.writes_bundle()) {
    throw Error(Code::bad_argument,
                "--disjoint says that no input is in both spaces, so that there are no pairs to write; give -o "
                "FILE.kedge for the rotation between them");
  }
}

/// Before any work: nothing that is read may be written over, and what is written must have a place.
std::vector<std::shared_ptr<const void>> claim_outputs(const Options& o) {
  const std::array outputs{o.output, o.scores};
  require_different(outputs);
  std::vector<std::shared_ptr<const void>> claimed;
  for (const std::string& output : outputs) {
    if (output.empty()) continue;
    for (const std::string& space : o.spaces) require_other_file(output, file_of(space));
    require_other_file(output, o.pairs);
  }
  if (o.writes_bundle()) require_replaceable(o.output, ResultKind::bundle);
  for (const std::string& output : outputs) {
    if (!output.empty()) claimed.push_back(require_writable(output));
  }
  return claimed;
}

std::vector<Space> open_spaces(const Options& o) {
  if (o.spaces.size() < 2) {
    throw Error(Code::bad_argument, fmt::format("match looks for the rows of one space in another, but {} given; give "
                                                "--space NAME=FILE for each of two or more",
                                                o.spaces.empty() ? "none was" : "one was"));
  }
  std::vector<Space> spaces;
  for (const std::string& text : o.spaces) {
    spaces.push_back(open_space(text));
    for (std::size_t i = 0; i + 1 < spaces.size(); ++i) {
      if (spaces[i].name() != spaces.back().name()) continue;
      throw Error(Code::bad_argument,
                  fmt::format("two spaces are called '{}'; give each a name of its own", spaces[i].name()));
    }
  }
  return spaces;
}

/// Of the first space and another, out of rows that hold a number of every space.
std::vector<std::int64_t> two_columns(std::span<const std::int64_t> known, std::size_t columns, std::size_t other) {
  std::vector<std::int64_t> pairs;
  for (std::size_t i = 0; i < known.size(); i += columns) {
    pairs.push_back(known[i]);
    pairs.push_back(known[i + other]);
  }
  return pairs;
}

std::vector<Match> match_all(const std::vector<Space>& spaces, const Options& o) {
  std::vector<std::int64_t> known;
  if (!o.pairs.empty()) known = read_integer_rows(o.pairs, spaces.size(), "a row number of each --space");
  const Progress progress = make_progress(o.common);
  std::vector<Match> matches;
  for (std::size_t i = 1; i < spaces.size(); ++i) {
    MatchOptions options = o.match;
    options.pairs = two_columns(known, spaces.size(), i);
    matches.push_back(match(spaces.front(), spaces[i], options, progress));
  }
  return matches;
}

/// Rows of the first space that were found in all others, surest first.
std::vector<FoundRow> join(std::span<const Match> matches) {
  std::vector<FoundRow> found;
  for (std::size_t i = 0; i < matches[0].chances.size(); ++i) found.push_back({{matches[0].pairs[2 * i]}});
  for (const Match& one : matches) {
    std::unordered_map<std::int64_t, std::size_t> pair_of;
    for (std::size_t i = 0; i < one.chances.size(); ++i) pair_of.emplace(one.pairs[2 * i], i);
    std::erase_if(found, [&](const FoundRow& row) { return !pair_of.contains(row.places.front()); });
    for (FoundRow& row : found) {
      const std::size_t pair = pair_of.at(row.places.front());
      row.places.push_back(one.pairs[2 * pair + 1]);
      row.chance *= static_cast<double>(one.chances[pair]);
    }
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &FoundRow::chance);
  return found;
}

void save_pairs(std::span<const FoundRow> found, std::size_t columns, const Options& o) {
  std::vector<std::int64_t> rows;
  std::vector<float> chances;
  for (const FoundRow& row : found) {
    rows.insert(rows.end(), row.places.begin(), row.places.end());
    chances.push_back(static_cast<float>(row.chance));
  }
  save_npy(o.output, rows, columns);
  if (!o.scores.empty()) save_npy(o.scores, chances);
}

/// A fit of the pairs; if the spaces hold different inputs, the rotation that was found without pairs.
Bundle bundle_of(const Match& found, const std::vector<Space>& spaces, const Options& o) {
  if (found.pairs.empty() || found.verdict == MatchVerdict::disjoint) {
    return rotation_bundle(found, spaces[0], spaces[1]);
  }
  FitOptions options;
  options.method = Adapter{.by = Pairwise::procrustes};
  options.similarity = Similarity::inner;
  options.seed = o.match.seed;
  return fit(pair_rows(spaces, found.pairs), options, make_progress(o.common));
}

Json to_json(const Match& found, const Space& first, const Space& second) {
  Json json = {{"first", first.name()},
               {"second", second.name()},
               {"rows", std::vector<std::size_t>{first.rows(), second.rows()}},
               {"verdict", to_string(found.verdict)},
               {"sentence", describe(found)},
               {"pairs", found.chances.size()},
               {"agreement", found.agreement},
               {"mutual", found.mutual},
               {"runs", found.runs}};
  if (const auto& kept = found.kept_back) {
    json.set("kept_back", {{"pairs", kept->pairs},
                           {"found_before", kept->found_before},
                           {"found_after", kept->found_after},
                           {"mrr_before", kept->mrr_before},
                           {"mrr_after", kept->mrr_after}});
  }
  if (!found.warnings.empty()) json.set("warnings", found.warnings);
  return json;
}

/// Why there is nothing to write of what was asked for; empty if there is.
std::string what_is_against(const Match& found, const Options& o) {
  if (!is_success(found.verdict)) return describe(found);
  const bool wants_pairs = !o.output.empty() && !o.writes_bundle();
  if (found.verdict == MatchVerdict::disjoint && wants_pairs) {
    return describe(found) + "; -o FILE.kedge writes the rotation instead";
  }
  return "";
}

void run(const Options& o) {
  o.common.apply();
  const Stopwatch watch;
  require_output(o);
  const auto claimed = claim_outputs(o);
  const std::vector<Space> spaces = open_spaces(o);
  const std::vector<Match> matches = match_all(spaces, o);
  const std::vector<FoundRow> found = join(matches);

  std::vector<std::string> against;
  Json each = Json::array();
  for (std::size_t i = 0; i < matches.size(); ++i) {
    each.push_back(to_json(matches[i], spaces[0], spaces[i + 1]));
    const std::string who =
        matches.size() == 1 ? "" : fmt::format("{} and {}: ", spaces[0].name(), spaces[i + 1].name());
    for (const std::string& warning : matches[i].warnings) say(o.common, fmt::format("warning: {}{}", who, warning));
    if (const std::string why = what_is_against(matches[i], o); !why.empty()) {
      against.push_back(who + why);
    } else {
      say(o.common, who + describe(matches[i]));
    }
  }
  const bool writes = !o.output.empty() && (against.empty() || o.match.force);
  if (writes && o.writes_bundle()) {
    save_bundle(bundle_of(matches[0], spaces, o), o.output);
  } else if (writes) {
    save_pairs(found, spaces.size(), o);
  }
  const auto worst = std::ranges::max_element(matches, {}, &Match::verdict);
  Json summary = {{"command", "match"},    {"verdict", to_string(worst->verdict)},
                  {"pairs", found.size()}, {"matches", each},
                  {"seed", o.match.seed},  {"seconds", watch.seconds()}};
  if (writes) summary.set(o.writes_bundle() ? "bundle" : "out", o.output);
  print_json(o.common, summary);
  if (writes) say(o.common, fmt::format("wrote {}: {} pairs, {:.2f} s", o.output, found.size(), watch.seconds()));
  if (against.empty()) return;
  throw NotGoodEnough(
      fmt::format("{}{}", fmt::join(against, "; "),
                  writes || o.output.empty() ? "" : " (nothing was written; --force writes all the same)"));
}

}  // namespace

void add_match(CommandLine& line) {
  auto o = std::make_shared<Options>();
  Command& c = line.add("match",
                        "Find which rows of two spaces embed the same input, with a few known pairs or none. Exit "
                        "status 4 if it cannot be told, or if there are no pairs to tell of");
  c.add_repeated("--space", o->spaces,
                 "One encoder's embeddings, in any order; repeat for each. Every space is matched with the first. "
                 "Files: .npy, .safetensors#tensor, .fvecs")
      .takes("NAME=FILE");
  c.add("--pairs", o->pairs,
        fmt::format("Rows that are known to belong together: an .npy of integers with a column of row numbers, from 0, "
                    "for each --space. Five help; of {} or more, some are kept back to judge the result by",
                    MatchOptions::kDecidingPairs))
      .takes("FILE");
  c.add("-o,--out", o->output,
        "FILE.npy: the rows found in all spaces, surest first, as --pairs of 'kedge fit' takes them. FILE.kedge, for "
        "two spaces: a bundle fitted on them (procrustes), or the rotation if the spaces hold different inputs [only "
        "the verdict]")
      .takes("FILE");
  c.add("--scores", o->scores, "Also write the chance that each pair is right, 0 to 1, as an .npy of float32")
      .takes("FILE");
  add_options(c, options_of(o->match));
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
