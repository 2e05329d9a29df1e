// SPDX-License-Identifier: Apache-2.0
#include "looks_like.h"

#include "io/outputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace kedge::cli {
namespace {

constexpr double kFew = 0.005;  // a share of rows that is no model of its own
constexpr double kSome = 0.1;   // fewer rows than this may look like a model by chance
constexpr double kAlike = 1.5;  // lengths that differ less are the same

/// The models that can be compared, and what there is to say about them and about others.
struct Known {
  std::vector<KnownModel> models;
  std::vector<std::string> notes;
  bool untold = false;  ///< whether there is one by which nothing can be told
};

void add_known(Known& known, const std::string& name, const Moments& moments, const Space& file) {
  constexpr std::size_t kFewRows = 100;
  const std::size_t dim = moments.dim();
  if (std::ranges::any_of(known.models, [&](const KnownModel& other) { return other.name == name; })) {
    throw Error(Code::bad_argument, fmt::format("--like names '{}' twice; give each model a name, as NAME=FILE", name));
  }
  if (dim != file.dim()) {
    known.notes.push_back(fmt::format("{} has {} values a row and {} has {}, so it is not of that model", file.name(),
                                      file.dim(), name, dim));
    return;
  }
  if (moments.rows() < kFewRows) {
    known.notes.push_back(
        fmt::format("{} is known by {} rows, which are few: some of its own may look strange", name, moments.rows()));
  }
  Likeness likeness(moments);
  if (likeness.can_tell()) {
    known.models.push_back({name, std::move(likeness)});
  } else {
    known.untold = true;
    known.notes.push_back(fmt::format("{} fills all directions nearly alike, so nothing can be told by it", name));
  }
}

/// A file of moments has one known model for each of its spaces.
void open_known(const CommonOptions& common, const std::string& text, const Space& file, Known& known) {
  const std::size_t equals = text.find('=');
  const std::string path = equals == std::string::npos ? text : text.substr(equals + 1);
  if (path.empty()) throw Error(Code::bad_argument, "--like names no file; write FILE or NAME=FILE");
  if (!io::says(path, "kedge moments")) {
    const Space space = open_space(text);
    return add_known(known, space.name(), compute_moments(space, Device::cpu, make_progress(common)), file);
  }
  const Moments all = load_moments(path);
  const std::string name = equals == std::string::npos ? "" : text.substr(0, equals);
  for (const Moments::Part& part : all.parts()) {
    const std::string own = all.parts().size() == 1 ? name : fmt::format("{}/{}", name, part.space);
    add_known(known, name.empty() ? part.space : own, all.of(part.space), file);
  }
}

struct Verdict {
  std::string looks;               ///< like, mixed, none or unsure
  std::vector<std::size_t> found;  ///< the models that it is of
  std::string sentence;
};

Verdict verdict_of(const ModelShares& shares, std::span<const KnownModel> models, std::size_t rows) {
  const auto share = [&](std::size_t count) { return static_cast<double>(count) / static_cast<double>(rows); };
  std::vector<std::size_t> found;
  std::vector<std::string> names;
  for (std::size_t m = 0; m < models.size(); ++m) {
    if (share(shares.rows[m]) <= kFew) continue;
    found.push_back(m);
    names.push_back(models[m].name);
  }
  const std::size_t like = std::accumulate(shares.rows.begin(), shares.rows.end(), std::size_t{0});
  if (shares.unlike > shares.between && share(like) < kSome) {
    return {"none", {}, "looks like a model that is not among them"};
  }
  if (shares.between >= like) {
    return {"unsure", {}, "looks like no model for sure: perhaps one of them, on other content"};
  }
  const std::string sentence = fmt::format("looks like {}", fmt::join(names, " and "));
  if (found.size() > 1) return {"mixed", found, sentence + " mixed"};
  if (share(shares.unlike) <= kFew) return {"like", found, sentence};
  return {"mixed", found, fmt::format("{}, with {} rows of another model among them", sentence, shares.unlike)};
}

void add_notes(std::vector<std::string>& notes, const Verdict& verdict, const ModelShares& shares,
               std::span<const KnownModel> models) {
  for (const std::size_t m : verdict.found) {
    const double longer = shares.length / models[m].likeness.length();
    if (longer > 1 / kAlike && longer < kAlike) continue;
    notes.push_back(fmt::format("its rows have length {:.3g}, those of {} {:.3g}; scale them before they are mixed",
                                shares.length, models[m].name, models[m].likeness.length()));
  }
}

void print(const std::string& file, const ModelShares& shares, std::span<const KnownModel> models, std::size_t rows) {
  const auto line = [&](const std::string& name, std::size_t count) {
    fmt::print("  {:<24}  {:>10}  {:>7.2f} %\n", name, count,
               100 * static_cast<double>(count) / static_cast<double>(rows));
  };
  fmt::print("{}: {} rows\n\n  {:<24}  {:>10}\n", file, rows, "look like", "rows");
  for (std::size_t m = 0; m < models.size(); ++m) line(models[m].name, shares.rows[m]);
  line("perhaps one of them", shares.between);
  line("none of them", shares.unlike);
}

}  // namespace

void say_what_it_looks_like(const CommonOptions& common, const std::string& file,
                            const std::vector<std::string>& known) {
  const Space space = open_space(file);
  if (space.rows() == 0) throw Error(Code::bad_file, fmt::format("{} has no rows to compare", file));
  Known all;
  for (const std::string& text : known) open_known(common, text, space, all);
  const std::vector<KnownModel>& models = all.models;
  std::vector<std::string>& notes = all.notes;
  ModelShares shares;
  if (models.empty()) {
    (all.untold ? shares.between : shares.unlike) = space.rows();
  } else {
    shares = count_by_model(space, models, make_progress(common));
  }
  const Verdict verdict = verdict_of(shares, models, space.rows());
  add_notes(notes, verdict, shares, models);
  if (common.json) {
    Json by_model = Json::array();
    for (std::size_t m = 0; m < models.size(); ++m) {
      by_model.push_back(Json{{"name", models[m].name}, {"rows", shares.rows[m]}});
    }
    print_json(common, Json{{"command", "inspect"},
                            {"file", file},
                            {"rows", space.rows()},
                            {"looks", verdict.looks},
                            {"like", by_model},
                            {"perhaps", shares.between},
                            {"none", shares.unlike},
                            {"strange_rows", shares.first_strange},
                            {"notes", notes}});
    return;
  }
  print(file, shares, models, space.rows());
  fmt::print("\n{} {}\n", file, verdict.sentence);
  if (verdict.looks == "mixed") fmt::print("strange rows: {}, ...\n", fmt::join(shares.first_strange, ", "));
  for (const std::string& note : notes) fmt::print("{}\n", note);
}

}  // namespace kedge::cli
