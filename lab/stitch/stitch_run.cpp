// SPDX-License-Identifier: Apache-2.0
#include "stitch/stitch_run.h"

#include "base/eigen.h"
#include "fit/attach.h"
#include "fit/fit.h"
#include "head/yardstick.h"
#include "stitch/resample.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <utility>

namespace kedge {
namespace {

using Anchors = StitchMethod::Anchors;

double std_of(const Matrix& features) {
  const auto cells = as_eigen(features.view());
  const double mean = cells.cast<double>().mean();
  return std::sqrt((cells.cast<double>().array() - mean).square().mean());
}

Matrix first_rows(const Matrix& from, std::size_t count) {
  Matrix rows(std::min(count, from.rows()), from.cols());
  as_eigen(rows.view()) = as_eigen(from.view().middle_rows(0, rows.rows()));
  return rows;
}

/// Random rows need no whitening here: their map folds it in.
bool needs_whitening(const StitchMethod& method, const FitArguments& point) {
  const bool learns = method.anchors == Anchors::param_single || method.anchors == Anchors::param_multi ||
                      method.anchors == Anchors::consensus || method.anchors == Anchors::ridge;
  return learns || regresses(way_of(method, point)) ||
         (method.anchors != Anchors::random && method.similarity == Similarity::wip);
}

/// Features of one method, made when they are first needed.
class Features {
 public:
  using Map = std::function<Matrix(std::size_t space, const Matrix& rows)>;
  Features(const StitchContext& context, Map map) : context_(context), map_(std::move(map)) {}

  [[nodiscard]] Matrix train(std::size_t space) const { return map_(space, context_.train(space).read_all()); }
  [[nodiscard]] const Matrix& test(std::size_t space) {
    const auto [place, fresh] = test_.try_emplace(space);
    if (fresh) place->second = map_(space, context_.test(space).read_all());
    return place->second;
  }

 private:
  const StitchContext& context_;
  Map map_;
  std::map<std::size_t, Matrix> test_;
};

/// The heads trained on one space's train rows.
struct Heads {
  std::optional<Classifier> classifier;
  std::optional<Classifier> linear;  ///< the yardstick of an mlp that is used on its own encoder
  HeadFunction decoder;
};

Heads train_heads(const StitchContext& context, const Matrix& features, const PlannedRun& run, bool with_yardstick,
                  const Progress& progress) {
  HeadOptions options = context.options().head;
  options.device = context.options().points[run.point].device;
  options.seed = run.seed;
  Heads heads;
  if (context.has_labels()) {
    heads.classifier = train_classifier(features.view(), context.train_labels(), options, progress);
    if (with_yardstick) heads.linear = train_yardstick(features.view(), context.train_labels(), options, progress);
  }
  if (context.has_targets()) {
    heads.decoder = train_decoder(features.view(), context.train_targets().view(), options, progress);
  }
  return heads;
}

/// Judges the heads of one method of a run, pair by pair.
class Judge {
 public:
  Judge(const StitchContext& context, const PlannedRun& run, const StitchMethod& method, const KnownMeasurements& known,
        const Progress& progress)
      : context_(context),
        run_(run),
        method_(method),
        known_(known),
        progress_(progress),
        resamples_(context.test(0).rows()) {}

  void judge(Features& features, RunOutcome& outcome) {
    std::optional<std::size_t> trained_on;
    for (const auto& [source, encoder] : run_.pairs) {  // pairs of one source are adjacent
      const Measurement empty = unmeasured(context_, run_, method_, {source, encoder});
      const bool is_known = known_.has(empty);
      const bool pictured = context_.has_targets() && context_.options().samples > 0 && is_shown(source, encoder);
      if (is_known && !pictured) continue;
      if (source != trained_on && (context_.has_labels() || context_.has_targets())) {
        heads_ = train_heads(context_, features.train(source), run_, needs_yardstick(source), progress_);
      }
      trained_on = source;
      Measurement measured = measure(empty, features, source, encoder);
      if (!is_known) outcome.measurements.push_back(std::move(measured));
    }
    if (run_.shown) outcome.shown.push_back(show(features));
  }

 private:
  [[nodiscard]] Measurement measure(Measurement result, Features& features, std::size_t source, std::size_t encoder) {
    const Matrix& test = features.test(encoder);
    if (!run_.sources.empty()) result.rr_std = std_of(test);
    if (source != encoder) {
      CompareOptions what;
      what.knn_overlap = false;
      what.svcca = false;
      what.device = context_.options().points[run_.point].device;
      result.pair = compare(features.test(source).view(), test.view(), what);
      resample_ranks(what, result);
    }
    if (heads_.classifier) judge_labels(test, source == encoder, result);
    if (heads_.decoder) {
      const Matrix decoded = heads_.decoder(test.view());
      result.targets = score_targets(context_.test_targets().view(), decoded.view(), context_.target_range());
      resample_errors(decoded, result);
      if (is_shown(source, encoder)) shown_ = first_rows(decoded, context_.options().samples);
    }
    if (progress_) progress_({"testing heads", 0, 1, ""});
    return result;
  }

  /// Whether to train the yardstick: one for each method and encoder shows whether heads are undertrained.
  [[nodiscard]] bool needs_yardstick(std::size_t source) const {
    const StitchOptions& options = context_.options();
    return context_.has_labels() && options.head.kind == HeadKind::mlp && run_.seed == options.seeds.front() &&
           run_.point == 0 && std::ranges::count(run_.pairs, std::pair(source, source)) > 0;
  }

  void judge_labels(const Matrix& test, bool own, Measurement& result) const {
    const auto truth = context_.test_labels();
    const std::vector<std::int64_t> predicted = heads_.classifier.value().predict(test.view());
    result.labels = score_labels(truth, predicted);
    std::vector<double> right;
    for (std::size_t i = 0; i < truth.size(); ++i) right.push_back(truth[i] == predicted[i] ? 1 : 0);
    result.resampled["accuracy"] = resamples_.means(right);
    result.resampled["weighted_f1"] = resamples_.weighted_f1(truth, predicted);
    if (!own || !heads_.linear) return;
    const std::vector<std::int64_t> linear = heads_.linear->predict(test.view());
    result.linear_f1 = score_labels(truth, linear).weighted_f1;
    result.resampled["linear_f1"] = resamples_.weighted_f1(truth, linear);
  }

  void resample_ranks(const CompareOptions& what, Measurement& result) const {
    const std::vector<std::size_t>& ranks = result.pair.value().ranks;
    std::vector<double> values(ranks.size());
    std::ranges::transform(ranks, values.begin(), [](std::size_t rank) { return 1 / static_cast<double>(rank); });
    result.resampled["mrr"] = resamples_.means(values);
    for (const std::size_t k : what.recall_at) {
      std::ranges::transform(ranks, values.begin(), [k](std::size_t rank) { return rank <= k ? 1 : 0; });
      result.resampled[fmt::format("recall@{}", k)] = resamples_.means(values);
    }
  }

  void resample_errors(const Matrix& decoded, Measurement& result) const {
    const Matrix& truth = context_.test_targets();
    std::vector<double> errors;
    for (std::size_t r = 0; r < truth.rows(); ++r) {
      errors.push_back(score_targets(truth.view().middle_rows(r, 1), decoded.view().middle_rows(r, 1), 1).mse);
    }
    result.resampled["mse"] = resamples_.means(errors);
  }

  [[nodiscard]] bool is_shown(std::size_t source, std::size_t encoder) const {
    return run_.shown && encoder == run_.shown_encoder && (source == run_.shown_source || run_.sources.empty());
  }

  [[nodiscard]] ShownFeatures show(Features& features) {
    ShownFeatures shown{to_string(method_), {}, {}, std::move(shown_)};
    if (run_.sources.empty()) return shown;
    const bool holds_out = std::ranges::count(run_.sources, run_.shown_encoder) == 0 && run_.sources.size() > 1;
    if (holds_out) shown.held_out = context_.data().spaces[run_.shown_encoder].name();
    for (std::size_t i = 0; i < context_.data().spaces.size(); ++i) {
      shown.features.push_back(first_rows(features.test(i), kShownRows));
    }
    return shown;
  }

  const StitchContext& context_;
  const PlannedRun& run_;
  const StitchMethod& method_;
  const KnownMeasurements& known_;
  const Progress& progress_;
  Resamples resamples_;
  Heads heads_;
  Matrix shown_;
};

/// A part of a file name, without slashes and not too long; a hash stands for what is cut.
std::string file_part(const std::string& name) {
  constexpr std::size_t kMost = 60;
  std::string part;
  for (const char c : name) part += c == '/' ? std::string("%2F") : std::string(1, c);
  if (part.size() <= kMost) return part;
  return fmt::format("{}~{:08x}", part.substr(0, kMost), std::hash<std::string>()(part) & 0xffffffffU);
}

class Clock {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

FitOptions fit_options(const StitchContext& context, const PlannedRun& run, const StitchMethod& method) {
  return fit_options_of(method, context.options().points[run.point], run.seed, train_rows(context.data()));
}

StitchRun describe(const StitchContext& context, const PlannedRun& run, const StitchMethod& method, double seconds) {
  StitchRun result;
  result.method = to_string(method);
  result.seed = run.seed;
  result.seconds = seconds;
  for (const std::size_t i : run.sources) result.sources.push_back(context.data().spaces[i].name());
  if (run.sources.empty()) {  // absolute: the space its head learned from
    result.sources.push_back(context.data().spaces[run.pairs.front().first].name());
    return result;
  }
  result.point = context.point(run.point);
  return result;
}

}  // namespace

MeasurementKey key_of(const Measurement& m) {
  return {m.method, m.encoder, m.trained_on, m.seed, m.point};
}

KnownMeasurements::KnownMeasurements(std::span<const Measurement> known) {
  for (const Measurement& m : known) keys_.insert(key_of(m));
}

Measurement unmeasured(const StitchContext& context, const PlannedRun& run, const StitchMethod& method,
                       std::pair<std::size_t, std::size_t> pair) {
  Measurement result;
  result.method = to_string(method);
  result.encoder = context.data().spaces[pair.second].name();
  result.trained_on = context.data().spaces[pair.first].name();
  result.seed = run.seed;
  if (!run.sources.empty()) result.point = context.point(run.point);
  return result;
}

std::string bundle_file(const StitchContext& context, const PlannedRun& run, const StitchMethod& method) {
  const std::string& folder = context.options().bundle_folder;
  if (folder.empty() || run.sources.empty()) return "";
  const auto& spaces = context.data().spaces;
  std::string sources = "from-" + file_part(spaces[run.sources.front()].name());
  for (std::size_t i = 0; i < spaces.size() && run.sources.size() > 1; ++i) {
    if (std::ranges::count(run.sources, i) == 0) sources = "without-" + file_part(spaces[i].name());
  }
  if (method.anchors == Anchors::ridge) {
    sources = fmt::format("from-{}-to-{}", file_part(spaces[run.sources[0]].name()),
                          file_part(spaces[run.sources[1]].name()));
  }
  const StitchPoint point = context.point(run.point);
  const std::string name = fmt::format("{}.{}.anchors-{}.support-{}.shrinkage-{}.seed-{}.kedge", to_string(method),
                                       sources, point.anchors, point.support, point.shrinkage, run.seed);
  return (std::filesystem::path(folder) / name).string();
}

Bundle learn_anchors(const StitchContext& context, const PlannedRun& run, const Progress& progress) {
  const FitArguments& point = context.options().points[run.point];
  std::vector<Space> sources;
  std::vector<Statistics> statistics;
  for (const std::size_t i : run.sources) {
    sources.push_back(context.train(i));
    statistics.push_back(*context.statistics(i, point, needs_whitening(run.methods.front(), point)));
  }
  return fit(sources, std::move(statistics), fit_options(context, run, run.methods.front()), progress);
}

Bundle attach_all(const StitchContext& context, const PlannedRun& run, const StitchMethod& method,
                  const Bundle& learned) {
  if (method.anchors == Anchors::ridge) return learned;  // joins two spaces, and there is nothing to attach
  const FitArguments& point = context.options().points[run.point];
  const FitOptions settings = fit_options(context, run, method);
  Recipe made = learned.made();
  LearnedAnchors anchors = learned.anchors();
  std::vector<Attachment> spaces;
  if (method == run.methods.front()) {
    spaces = learned.spaces();
  } else {
    made.similarity = method.similarity;
    made.attach_by = attach_by(settings);
    if (made.similarity != Similarity::wip) anchors.targets = {};
  }
  const Attacher attacher(made, anchors);
  for (std::size_t i = 0; i < context.data().spaces.size(); ++i) {
    const Space& space = context.train(i);
    if (std::ranges::find(spaces, space.name(), &Attachment::space) != spaces.end()) continue;
    const auto statistics = context.statistics(i, point, regresses(made.attach_by));
    spaces.push_back(attacher.attach(space.gather(anchors.support_ids), *statistics,
                                     {made.attach_by, settings.ridge, settings.kernel}));
  }
  return {std::move(made), std::move(anchors), std::move(spaces)};
}

RunOutcome execute(const StitchContext& context, const PlannedRun& run, const Progress& progress,
                   const KnownMeasurements& known) {
  RunOutcome outcome;
  if (run.sources.empty()) {
    const Clock clock;
    Features raw(context, [](std::size_t, const Matrix& rows) { return rows; });
    Judge(context, run, run.methods.front(), known, progress).judge(raw, outcome);
    outcome.runs.push_back(describe(context, run, run.methods.front(), clock.seconds()));
    return outcome;
  }
  const Clock fit_clock;
  const Bundle learned = learn_anchors(context, run, progress);
  const double fit_seconds = fit_clock.seconds();
  for (const StitchMethod& method : run.methods) {
    const Clock clock;
    const Bundle bundle = attach_all(context, run, method, learned);
    Features features(context, [&](std::size_t i, const Matrix& rows) {
      return bundle.map(context.data().spaces[i].name())->apply(rows.view());
    });
    Judge(context, run, method, known, progress).judge(features, outcome);
    outcome.runs.push_back(describe(context, run, method, fit_seconds + clock.seconds()));
    outcome.runs.back().history = bundle.anchors().history;
    if (method.anchors != Anchors::ridge) outcome.runs.back().found_anchors = bundle.anchors().mixture.rows();
    const std::string file = bundle_file(context, run, method);
    if (!file.empty()) save_bundle(bundle, file);
  }
  return outcome;
}

}  // namespace kedge
