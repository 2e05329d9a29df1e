// SPDX-License-Identifier: Apache-2.0
#include "looks_like.h"

#include "io/outputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace kedge::cli {
namespace {

constexpr double kFew = 0.005;  // a share of rows that is no model of its own
constexpr double kAlike = 1.5;  // lengths that differ less are the same

/// A file of moments has one known model for each of its spaces.
void add_known(const CommonOptions& common, const std::string& text, std::vector<KnownModel>& models) {
  const std::size_t equals = text.find('=');
  const std::string path = equals == std::string::npos ? text : text.substr(equals + 1);
  if (!io::says(path, "kedge moments")) {
    const Space space = open_space(text);
    models.push_back({space.name(), Likeness(compute_moments(space, Device::cpu, make_progress(common)))});
    return;
  }
  const Moments all = load_moments(path);
  const bool named = equals != std::string::npos && all.parts().size() == 1;
  for (const Moments::Part& part : all.parts()) {
    models.push_back({named ? text.substr(0, equals) : part.space, Likeness(all.of(part.space))});
  }
}

std::vector<KnownModel> known_models(const CommonOptions& common, const std::vector<std::string>& known,
                                     const Space& file) {
  std::vector<KnownModel> models, fitting;
  for (const std::string& text : known) add_known(common, text, models);
  for (KnownModel& model : models) {
    if (model.likeness.dim() == file.dim()) {
      fitting.push_back(std::move(model));
    } else {
      say(common, fmt::format("{} has {} values a row and {} has {}, so it is not of that model", file.name(),
                              file.dim(), model.name, model.likeness.dim()));
    }
  }
  return fitting;
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
  if (found.empty() && share(shares.unlike) > 0.5) return {"none", {}, "looks like a model that is not among them"};
  if (found.empty()) return {"unsure", {}, "looks like no model for sure: perhaps one of them, on other content"};
  std::string sentence = fmt::format("looks like {}", fmt::join(names, " and "));
  if (found.size() > 1) return {"mixed", found, sentence + " mixed"};
  if (share(shares.unlike) <= kFew) return {"like", found, sentence};
  return {"mixed", found, fmt::format("{}, with {} rows of another model among them", sentence, shares.unlike)};
}

std::vector<std::string> notes_of(const Verdict& verdict, const ModelShares& shares,
                                  std::span<const KnownModel> models) {
  std::vector<std::string> notes;
  if (verdict.looks == "mixed") {
    notes.push_back(fmt::format("strange rows: {}, ...", fmt::join(shares.first_strange, ", ")));
  }
  for (const std::size_t m : verdict.found) {
    const double longer = shares.length / models[m].likeness.length();
    if (longer > 1 / kAlike && longer < kAlike) continue;
    notes.push_back(fmt::format("its rows have length {:.3g}, those of {} {:.3g}; scale them before they are mixed",
                                shares.length, models[m].name, models[m].likeness.length()));
  }
  for (const KnownModel& model : models) {
    if (model.likeness.can_tell()) continue;
    notes.push_back(
        fmt::format("{} fills all directions nearly alike, so rows of other models may seem to be of it", model.name));
  }
  return notes;
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
  const std::vector<KnownModel> models = known_models(common, known, space);
  ModelShares shares;
  shares.unlike = space.rows();
  if (!models.empty()) shares = count_by_model(space, models, make_progress(common));
  const Verdict verdict = verdict_of(shares, models, space.rows());
  const std::vector<std::string> notes = notes_of(verdict, shares, models);
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
  for (const std::string& note : notes) fmt::print("{}\n", note);
}

}  // namespace kedge::cli
