// SPDX-License-Identifier: Apache-2.0
#include "backend/threads.h"
#include "base/parallel.h"
#include "eval/figures.h"
#include "eval/stitch_run.h"
#include "eval/stitch_settings.h"
#include "map/fit.h"
#include "map/support.h"

#include <fmt/format.h>
#include <kedge/device.h>
#include <kedge/error.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

namespace kedge {
namespace {

using Key = std::tuple<std::string, std::string, std::string, std::uint64_t, std::size_t, std::size_t, std::string>;

Key key_of(const Measurement& m) {
  return {m.method, m.encoder, m.trained_on, m.seed, m.anchors, m.support, m.shrinkage};
}

/// Leaves out of a plan what is known already.
std::vector<PlannedRun> leave_out_known(std::vector<PlannedRun> plan, const StitchContext& context,
                                        const std::vector<Measurement>& known) {
  std::set<Key> keys;
  for (const Measurement& m : known) keys.insert(key_of(m));
  const auto& spaces = context.data().spaces;
  for (PlannedRun& run : plan) {
    const FitOptions& point = context.options().points[run.point];
    const bool absolute = run.sources.empty();
    const std::size_t anchors = absolute ? 0 : point.anchors;
    const std::size_t support = absolute ? 0 : support_size(point, context.train(0).rows());
    const std::string shrinkage = absolute ? "" : shrinkage_name(point);
    std::erase_if(run.methods, [&](const StitchMethod& method) {
      return std::ranges::all_of(run.pairs, [&](const auto& pair) {
        return keys.contains(Key{to_string(method), spaces[pair.second].name(), spaces[pair.first].name(), run.seed,
                                 anchors, support, shrinkage});
      });
    });
  }
  std::erase_if(plan, [](const PlannedRun& run) { return run.methods.empty(); });
  return plan;
}

/// What cannot work is said before anything is computed.
void require_learnable(const StitchContext& context, const PlannedRun& run) {
  std::vector<Space> sources;
  for (const std::size_t i : run.sources) sources.push_back(context.train(i));
  for (const StitchMethod& method : run.methods) {
    if (!sources.empty()) require_fit(sources, fit_options_of(method, context.options().points[run.point], run.seed));
  }
}

/// How far all runs together are, in the units of their costs.
class Overall {
 public:
  Overall(const std::vector<PlannedRun>& plan, const Progress& progress) : progress_(progress), shares_(plan.size()) {
    for (const PlannedRun& run : plan) total_ += run.cost;
  }

  /// What a run reports to. Learning tells how far it is; the rest of a run is short.
  [[nodiscard]] Progress of(std::size_t index, const PlannedRun& run, const std::string& name) {
    return [this, index, &run, name](const ProgressReport& report) {
      const std::scoped_lock lock(lock_);
      if (stopped_) throw Error(Code::failed, "another run failed");
      if (report.step == "learning" && report.total > 0) {
        constexpr double kMostOfIt = 0.95;
        shares_[index] = kMostOfIt * run.cost * static_cast<double>(report.done) / static_cast<double>(report.total);
      }
      tell(name);
    };
  }

  /// Runs under way end at their next report.
  void stop() {
    const std::scoped_lock lock(lock_);
    stopped_ = true;
  }

  void finish(std::size_t index, const PlannedRun& run, const std::string& name) {
    const std::scoped_lock lock(lock_);
    shares_[index] = run.cost;
    tell(name);
  }

 private:
  void tell(const std::string& name) {
    if (!progress_) return;
    double done = 0;
    for (const double share : shares_) done += share;
    constexpr double kSteps = 1000;
    progress_({"stitching", static_cast<std::size_t>(kSteps * done / total_), static_cast<std::size_t>(kSteps), name});
  }

  const Progress& progress_;
  std::mutex lock_;
  std::vector<double> shares_;
  double total_ = 0;
  bool stopped_ = false;
};

std::string name_of(const PlannedRun& run, const StitchContext& context) {
  std::string sources;
  const auto& spaces = context.data().spaces;
  for (const std::size_t i : run.sources) sources += (sources.empty() ? "" : "+") + spaces[i].name();
  if (run.sources.empty()) sources = spaces[run.pairs.front().first].name();
  return fmt::format("{} on {}, seed {}", to_string(run.methods.front()), sources, run.seed);
}

/// By method as asked for, then point, encoder, head and seed, so that a file does not depend on who was first.
void sort(StitchResults& results, const StitchData& data, const StitchOptions& options) {
  const auto place = [](const auto& names, const std::string& name) {
    return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  };
  std::vector<std::string> methods;
  for (const StitchMethod& method : options.methods) methods.push_back(to_string(method));
  std::vector<std::string> spaces;
  for (const Space& space : data.spaces) spaces.push_back(space.name());
  std::ranges::stable_sort(results.measurements, {}, [&](const Measurement& m) {
    return std::tuple(place(methods, m.method), m.method, m.anchors, m.support, m.shrinkage, place(spaces, m.encoder),
                      place(spaces, m.trained_on), m.seed);
  });
  std::ranges::stable_sort(results.runs, {}, [&](const StitchRun& r) {
    return std::tuple(place(methods, r.method), r.method, r.anchors, r.support, r.shrinkage, r.sources, r.seed);
  });
}

/// Measurements of a method that is run again, in part or whole, make room for the new ones.
void merge(StitchResults& results, const RunOutcome& outcome) {
  std::set<Key> fresh;
  for (const Measurement& m : outcome.measurements) fresh.insert(key_of(m));
  std::erase_if(results.measurements, [&](const Measurement& m) { return fresh.contains(key_of(m)); });
  for (const Measurement& m : outcome.measurements) results.measurements.push_back(m);
  for (const StitchRun& run : outcome.runs) results.runs.push_back(run);
}

}  // namespace

StitchResults stitch(const StitchData& given, const StitchOptions& options, StitchResults known,
                     const Progress& progress, const StitchObserver& observer) {
  const StitchData data = checked(given, options);
  StitchResults results = std::move(known);
  const std::string settings = settings_of(data, options);
  if (!results.settings.empty()) require_same_settings(results.settings, settings);
  results.settings = settings;

  const StitchContext context(data, options);
  const std::vector<PlannedRun> plan = leave_out_known(plan_runs(data, options), context, results.measurements);
  for (const PlannedRun& run : plan) require_learnable(context, run);
  Figures figures(context, results.figures);
  figures.add_geometry();
  results.figures = figures.text();
  Overall overall(plan, progress);
  std::mutex lock;
  std::size_t done = 0;
  std::size_t total = 0;
  for (const PlannedRun& run : plan) total += run.methods.size();
  // A few runs on many cores are better done one after the other, each on all cores.
  constexpr std::size_t kCoresPerRun = 4;
  const bool one_by_one = plan.size() * kCoresPerRun < threads();
  const auto workers = static_cast<unsigned>(one_by_one ? 1 : std::min<std::size_t>(threads(), plan.size()));
  parallel_blocks(plan.size(), 1, std::max(1U, workers), [&] {
    return [&, alone = workers > 1 ? std::make_unique<OneThread>() : nullptr](std::size_t index, std::size_t) {
      const PlannedRun& run = plan[index];
      const std::string name = name_of(run, context);
      RunOutcome outcome;
      try {
        outcome = execute(context, run, overall.of(index, run, name));
        overall.finish(index, run, name);
      } catch (...) {
        overall.stop();
        throw;
      }
      const std::scoped_lock guard(lock);
      figures.add(outcome.shown, run);
      results.figures = figures.text();
      merge(results, outcome);
      sort(results, data, options);
      const std::size_t pairs = run.pairs.size();
      for (std::size_t i = 0; i < outcome.runs.size(); ++i) {
        const auto measured = std::span<const Measurement>(outcome.measurements).subspan(i * pairs, pairs);
        if (observer) observer({results, outcome.runs[i], measured, ++done, total});
      }
    };
  });
  return results;
}

}  // namespace kedge
