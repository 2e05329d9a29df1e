// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"
#include "compute/threads.h"
#include "fit/fit.h"
#include "stitch/figures.h"
#include "stitch/stitch_run.h"
#include "stitch/stitch_settings.h"

#include <fmt/format.h>
#include <kedge/device.h>
#include <kedge/error.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

namespace kedge {
namespace {

/// Removes from a plan what is already known and, if asked for, drawn and saved.
std::vector<PlannedRun> leave_out_known(std::vector<PlannedRun> plan, const StitchContext& context,
                                        const KnownMeasurements& known, const Figures& figures) {
  for (PlannedRun& run : plan) {
    const auto is_known = [&](const StitchMethod& method, const auto& pair) {
      return known.has(unmeasured(context, run, method, pair));
    };
    const auto is_done = [&](const StitchMethod& method) {
      const std::string file = bundle_file(context, run, method);
      const bool saved = file.empty() || std::filesystem::exists(file);
      const bool drawn = !run.shown || !context.options().figures || figures.has(to_string(method));
      return saved && drawn && std::ranges::all_of(run.pairs, [&](const auto& pair) { return is_known(method, pair); });
    };
    std::erase_if(run.methods, is_done);
  }
  std::erase_if(plan, [](const PlannedRun& run) { return run.methods.empty(); });
  return plan;
}

/// Refuses what cannot work before anything is computed.
void require_learnable(const StitchContext& context, const PlannedRun& run) {
  std::vector<Space> sources;
  for (const std::size_t i : run.sources) sources.push_back(context.train(i));
  for (const StitchMethod& method : run.methods) {
    if (!sources.empty())
      require_fit(sources,
                  fit_options_of(method, context.options().points[run.point], run.seed, train_rows(context.data())));
  }
}

[[noreturn]] void refuse_nothing() {
  throw Error(Code::bad_argument,
              "there is nothing to measure: absolute heads need labels or targets; give them, or other methods");
}

/// Progress of all runs together, in units of their cost.
class Overall {
 public:
  Overall(const std::vector<PlannedRun>& plan, const Progress& progress) : progress_(progress), shares_(plan.size()) {
    for (const PlannedRun& run : plan) total_ += run.cost;
  }

  /// The progress callback of a run. Only learning reports; the rest of a run is short.
  [[nodiscard]] Progress of(std::size_t index, const PlannedRun& run, const std::string& name) {
    return [this, index, &run, name](const ProgressReport& report) {
      const std::scoped_lock lock(lock_);
      if (failure_) std::rethrow_exception(failure_);
      constexpr double kMostOfIt = 0.95;
      if (report.step == "learning" && report.total > 0) {
        set(index, kMostOfIt * run.cost * static_cast<double>(report.done) / static_cast<double>(report.total));
      }
      tell(name);
    };
  }

  /// Makes the other runs throw the current exception at their next report.
  void stop() {
    const std::scoped_lock lock(lock_);
    if (!failure_) failure_ = std::current_exception();
  }

  void finish(std::size_t index, const PlannedRun& run, const std::string& name) {
    const std::scoped_lock lock(lock_);
    set(index, run.cost);
    tell(name);
  }

 private:
  void set(std::size_t index, double share) {
    done_ += share - shares_[index];
    shares_[index] = share;
  }

  void tell(const std::string& name) const {
    constexpr double kSteps = 1000;
    if (!progress_) return;
    const double share = std::clamp(done_ / total_, 0.0, 1.0);
    progress_({"stitching", static_cast<std::size_t>(kSteps * share), static_cast<std::size_t>(kSteps), name});
  }

  const Progress& progress_;
  std::mutex lock_;
  std::vector<double> shares_;
  double done_ = 0, total_ = 0;
  std::exception_ptr failure_;
};

std::string name_of(const PlannedRun& run, const StitchContext& context) {
  std::string sources;
  const auto& spaces = context.data().spaces;
  for (const std::size_t i : run.sources) sources += (sources.empty() ? "" : "+") + spaces[i].name();
  if (run.sources.empty()) sources = spaces[run.pairs.front().first].name();
  return fmt::format("{} on {}, seed {}", to_string(run.methods.front()), sources, run.seed);
}

/// Sorts by method as asked for, then point, encoder, head and seed, so that the order of runs does not matter.
void sort(StitchResults& results, const StitchData& data, const StitchOptions& options) {
  const auto place = [](const auto& names, const std::string& name) {
    return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  };
  std::vector<std::string> methods;
  for (const StitchMethod& method : options.methods) methods.push_back(to_string(method));
  std::vector<std::string> spaces;
  for (const Space& space : data.spaces) spaces.push_back(space.name());
  std::ranges::stable_sort(results.measurements, {}, [&](const Measurement& m) {
    return std::tuple(place(methods, m.method), m.method, m.point, place(spaces, m.encoder),
                      place(spaces, m.trained_on), m.seed);
  });
  std::ranges::stable_sort(results.runs, {}, [&](const StitchRun& r) {
    return std::tuple(place(methods, r.method), r.method, r.point, r.sources, r.seed);
  });
}

/// Adds what is new. Existing records stay, even if they were run again for figures or a bundle: another processor
/// computes other bits, and numbers that somebody has quoted must not change.
void merge(StitchResults& results, const RunOutcome& outcome) {
  std::set<MeasurementKey> fresh;
  for (const Measurement& m : outcome.measurements) fresh.insert(key_of(m));
  for (const Measurement& m : results.measurements) fresh.erase(key_of(m));
  std::ranges::copy_if(outcome.measurements, std::back_inserter(results.measurements),
                       [&](const Measurement& m) { return fresh.contains(key_of(m)); });
  for (const StitchRun& run : outcome.runs) {
    const auto same = [&](const StitchRun& old) {
      return old.method == run.method && old.sources == run.sources && old.seed == run.seed && old.point == run.point;
    };
    if (std::ranges::none_of(results.runs, same)) results.runs.push_back(run);
  }
}

/// Takes the measurements of one method from the front.
std::span<const Measurement> take_method(std::span<const Measurement>& left, const std::string& method) {
  const auto end = std::ranges::find_if(left, [&](const Measurement& m) { return m.method != method; });
  const auto own = left.first(static_cast<std::size_t>(end - left.begin()));
  left = left.subspan(own.size());
  return own;
}

}  // namespace

StitchResults stitch(const StitchData& given, const StitchOptions& asked, StitchResults known, const Progress& progress,
                     const StitchObserver& observer) {
  const Work work;
  const StitchData data = checked(given, asked);
  const StitchOptions options = with_defaults(asked, train_rows(data));
  StitchResults results = std::move(known);
  const std::string settings = settings_of(data, options);
  if (!results.settings.empty()) require_same_settings(results.settings, settings);
  results.settings = settings;
  const std::size_t before = results.measurements.size();

  const StitchContext context(data, options);
  Figures figures(context, results.figures);
  sort(results, data, options);
  const std::vector<PlannedRun> whole = plan_runs(data, options);
  if (whole.empty()) refuse_nothing();
  const KnownMeasurements known_before(results.measurements);
  const std::vector<PlannedRun> plan = leave_out_known(whole, context, known_before, figures);
  for (const PlannedRun& run : plan) require_learnable(context, run);

  // One run, or a few on many cores, are better done one after the other, each on all cores; a GPU has room for one at
  // a time. The whole plan decides, so that what is left of it after an interruption is computed the same way.
  constexpr std::size_t kCoresPerRun = 4;
  const bool few = whole.size() == 1 || whole.size() * kCoresPerRun < threads();
  const bool one_by_one = few || options.points.front().device != Device::cpu;
  Overall overall(plan, progress);
  std::mutex lock;
  std::size_t done = 0;
  std::size_t total = 0;
  for (const PlannedRun& run : plan) total += run.methods.size();
  const auto take_in = [&](const PlannedRun& run, const RunOutcome& outcome) {
    const std::scoped_lock guard(lock);
    figures.add(outcome.shown, run);
    results.figures = figures.text();
    merge(results, outcome);
    sort(results, data, options);
    std::span<const Measurement> left = outcome.measurements;
    for (const StitchRun& one : outcome.runs) {
      const auto measured = take_method(left, one.method);
      if (observer) observer({results, one, measured, ++done, total, before});
    }
  };
  parallel_blocks(plan.size(), 1, one_by_one ? 1 : threads(), [&] {
    return [&](std::size_t index, std::size_t) {
      const PlannedRun& run = plan[index];
      const std::string name = name_of(run, context);
      try {
        take_in(run, execute(context, run, overall.of(index, run, name), known_before));
        overall.finish(index, run, name);
      } catch (...) {
        overall.stop();
        throw;
      }
    };
  });
  if (options.figures) figures.add_geometry(progress);
  results.figures = figures.text();
  return results;
}

}  // namespace kedge
