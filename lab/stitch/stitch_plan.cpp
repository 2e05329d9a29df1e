// SPDX-License-Identifier: Apache-2.0
#include "stitch/stitch_plan.h"

#include "fit/fit.h"
#include "stitch/run_cost.h"

#include <fmt/format.h>

#include <algorithm>

namespace kedge {
namespace {

using Anchors = StitchMethod::Anchors;

/// PARAM and random rows do not depend on the similarity, unless the support was selected by it. With random rows, maps
/// by regression learn from the sources, and maps by mixture do not.
bool same_mixture(const StitchMethod& a, const StitchMethod& b, const FitArguments& point) {
  if (a.anchors != b.anchors) return false;
  if (a.anchors == Anchors::random && regresses(way_of(a, point)) != regresses(way_of(b, point))) return false;
  const bool blind =
      point.support_select == SupportSelect::random &&
      (a.anchors == Anchors::param_single || a.anchors == Anchors::param_multi || a.anchors == Anchors::random);
  return blind || a.similarity == b.similarity;
}

std::vector<std::vector<StitchMethod>> group_methods(const std::vector<StitchMethod>& methods,
                                                     const FitArguments& point) {
  std::vector<std::vector<StitchMethod>> groups;
  for (const StitchMethod& method : methods) {
    const auto group =
        std::ranges::find_if(groups, [&](const auto& g) { return same_mixture(g.front(), method, point); });
    if (group == groups.end()) {
      groups.push_back({method});
    } else if (std::ranges::count(*group, method) == 0) {
      group->push_back(method);
    }
  }
  for (auto& group : groups) {  // learned with wip if that is among them, so that ridge has targets
    std::stable_partition(group.begin(), group.end(),
                          [](const StitchMethod& m) { return m.similarity == Similarity::wip; });
  }
  return groups;
}

std::vector<std::size_t> held_out_spaces(const StitchData& data, const StitchOptions& options) {
  std::vector<std::size_t> held_out;
  for (std::size_t i = 0; i < data.spaces.size(); ++i) {
    if (options.hold_out.empty() || std::ranges::count(options.hold_out, data.spaces[i].name()) > 0) {
      held_out.push_back(i);
    }
  }
  return held_out;
}

class Planner {
 public:
  Planner(const StitchData& data, const StitchOptions& options)
      : data_(data), options_(options), held_out_(held_out_spaces(data, options)) {}

  std::vector<PlannedRun> plan() && {
    for (std::size_t point = 0; point < options_.points.size(); ++point) {
      for (const std::uint64_t seed : options_.seeds) {
        for (const auto& methods : group_methods(options_.methods, options_.points[point])) add(point, seed, methods);
      }
    }
    // A free thread takes the next run. If the longest were last, one thread would work on while the others idle. Quick
    // runs may come first, so that there is something to see.
    double longest = 0;
    for (const PlannedRun& run : runs_) longest = std::max(longest, run.cost);
    constexpr double kQuick = 0.1;
    std::ranges::stable_sort(runs_, {}, [longest](const PlannedRun& run) {
      return std::pair(run.cost > kQuick * longest, run.cost > kQuick * longest ? -run.cost : run.cost);
    });
    return std::move(runs_);
  }

 private:
  void add(std::size_t point, std::uint64_t seed, const std::vector<StitchMethod>& methods) {
    const std::size_t spaces = data_.spaces.size();
    switch (methods.front().anchors) {
      case Anchors::absolute:
        if (point != 0 || (data_.labels.empty() && !data_.targets)) return;  // absolute has no anchors to sweep over
        for (const std::size_t t : held_out_) add_run(point, seed, methods, {}, {{t, t}});
        return;
      case Anchors::param_single:
        for (std::size_t i = 0; i < spaces; ++i) add_run(point, seed, methods, {i}, pairs_from(i));
        return;
      case Anchors::ridge:
        for (const std::size_t t : held_out_) {
          for (std::size_t i = 0; i < spaces; ++i) {
            if (i != t) add_run(point, seed, methods, {t, i}, {{i, t}});
          }
        }
        return;
      case Anchors::random:
        if (options_.points[point].support_select == SupportSelect::random &&
            !regresses(way_of(methods.front(), options_.points[point]))) {
          add_run(point, seed, methods, {0}, all_pairs());
          return;
        }
        break;
      default: break;
    }
    for (const std::size_t t : held_out_) {
      std::vector<std::size_t> sources;
      std::vector<std::pair<std::size_t, std::size_t>> pairs;
      for (std::size_t i = 0; i < spaces; ++i) {
        if (i != t) sources.push_back(i);
        pairs.emplace_back(i, t);
      }
      add_run(point, seed, methods, std::move(sources), std::move(pairs));
    }
  }

  std::vector<std::pair<std::size_t, std::size_t>> pairs_from(std::size_t trained_on) const {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (const std::size_t t : held_out_) pairs.emplace_back(trained_on, t);
    return pairs;
  }

  std::vector<std::pair<std::size_t, std::size_t>> all_pairs() const {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (std::size_t i = 0; i < data_.spaces.size(); ++i) {
      for (const auto& pair : pairs_from(i)) pairs.push_back(pair);
    }
    return pairs;
  }

  void add_run(std::size_t point, std::uint64_t seed, const std::vector<StitchMethod>& methods,
               std::vector<std::size_t> sources, std::vector<std::pair<std::size_t, std::size_t>> pairs) {
    PlannedRun run{point, seed, methods, std::move(sources), std::move(pairs)};
    run.cost = run_cost(run, data_, options_);
    run.shown_encoder = held_out_.back();
    run.shown_source = run.shown_encoder == 0 ? 1 : 0;
    const auto shown = [&](const auto& pair) {
      return pair.second == run.shown_encoder && (pair.first == run.shown_source || run.sources.empty());
    };
    const bool shares = run.methods.front().anchors != Anchors::ridge;  // all spaces can be drawn side by side
    run.shown = shares && point == 0 && seed == options_.seeds.front() && std::ranges::any_of(run.pairs, shown);
    runs_.push_back(std::move(run));
  }

  const StitchData& data_;
  const StitchOptions& options_;
  std::vector<std::size_t> held_out_;
  std::vector<PlannedRun> runs_;
};

}  // namespace

std::vector<PlannedRun> plan_runs(const StitchData& data, const StitchOptions& options) {
  return Planner(data, options).plan();
}

FitOptions fit_options_of(const StitchMethod& method, const FitArguments& point, std::uint64_t seed, std::size_t rows) {
  FitArguments options = point;
  options.similarity = method.similarity;
  options.seed = seed;
  options.attach_by = method.by;
  options.support = support_size(point, rows);  // the same for all methods of a point
  switch (method.anchors) {
    case Anchors::random: options.method = ChosenRows{Choice::random}; break;
    case Anchors::kmeans: options.method = ChosenRows{Choice::kmeans}; break;
    case Anchors::fps: options.method = ChosenRows{Choice::fps}; break;
    case Anchors::consensus: options.method = Consensus{}; break;
    case Anchors::ridge:
      options.method = Adapter{Pairwise::ridge};
      options.anchors.reset();
      options.effort = Effort::fast;
      break;
    case Anchors::absolute:  // fits nothing
    case Anchors::param_single:
    case Anchors::param_multi: options.method = Param{}; break;
  }
  // Options that belong to other methods of the point.
  const AttachBy by = attach_by(options);
  if (by != AttachBy::ridge) options.ridge.reset();
  if (by != AttachBy::kernel) options.kernel = {};
  return fit_options(options);
}

AttachBy way_of(const StitchMethod& method, const FitArguments& point) {
  if (method.anchors == Anchors::absolute) return AttachBy::mixture;  // it has no maps
  return attach_by(fit_options_of(method, point, 0, 0));
}

std::size_t train_rows(const StitchData& data) {
  return data.train_ids.ids.empty() ? data.train.end - data.train.begin : data.train_ids.ids.size();
}

StitchPoint point_of(const FitOptions& options, std::size_t rows) {
  const bool fixed = options.shrinkage_rule == ShrinkageRule::fixed;
  return {anchor_count(options, rows), support_size(options, rows),
          fixed ? fmt::format("{}", options.whitening.shrinkage) : std::string(to_string(options.shrinkage_rule))};
}

}  // namespace kedge
