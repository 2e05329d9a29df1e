// SPDX-License-Identifier: Apache-2.0
#include "stitch_aloud.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace kedge::cli {
namespace {

constexpr double kSecondsBetweenLines = 30;  // in addition to a line for every finished run

/// The numbers of one run that a user waits for: means over its zero-shot pairs, or its own head for absolute.
std::string describe_scores(const StitchEvent& event) {
  if (event.measured.empty()) return ", rerun for figures or a bundle; its records are unchanged";
  StitchResults own;
  own.measurements.assign(event.measured.begin(), event.measured.end());
  const std::vector<MethodScores> methods = mean_scores(own);
  std::string text;
  for (const MeanScore& score : methods.front().scores) {
    if (score.metric != "F1" && score.metric != "MRR" && score.metric != "MSE") continue;
    text += fmt::format(", {} {}", score.metric, score.text);
  }
  return text;
}

std::string describe(const StitchEvent& event, double seconds) {
  const StitchRun& run = event.run;
  return fmt::format("[{:>{}}/{}] {} on {}, seed {}{}{}{} ({:.1f} s; {:.0f} s so far)", event.done,
                     fmt::to_string(event.total).size(), event.total, run.method, fmt::join(run.sources, "+"), run.seed,
                     run.found_anchors == 0 ? "" : fmt::format(", {} anchors", run.found_anchors),
                     run.point.support == 0 ? "" : fmt::format(" of {} rows", run.point.support),
                     describe_scores(event), run.seconds, seconds);
}

}  // namespace

StitchResults stitch_aloud(const std::string& folder, const StitchData& data, const StitchOptions& options, bool fresh,
                           const CommonOptions& common) {
  const Stopwatch watch;
  const auto observe = [&](const StitchEvent& event) {
    if (event.done == 1 && event.known > 0) {
      say(common, fmt::format("{} already has {} records, which are kept; only what is missing is computed", folder,
                              event.known));
    }
    say(common, describe(event, watch.seconds()));
  };
  try {
    return stitch_into(folder, data, options, fresh, make_progress(common, kSecondsBetweenLines), observe);
  } catch (const Interrupted&) {
    throw Interrupted(fresh ? fmt::format("interrupted; the measurements so far are in {}", folder)
                            : fmt::format("interrupted; the same command continues from what is in {}", folder));
  }
}

Json means_to_json(const StitchResults& results) {
  Json all = Json::array();
  for (const MethodScores& method : mean_scores(results)) {
    Json one = {{"method", method.method}};
    if (method.point != StitchPoint()) {
      one.update({{"anchors", method.point.anchors},
                  {"support", method.point.support},
                  {"shrinkage", method.point.shrinkage}});
    }
    for (const MeanScore& score : method.scores) {
      one.set(score.metric, {{"mean", score.mean},
                             {"std", score.std ? Json(*score.std) : Json()},
                             {"noise", score.noise ? Json(*score.noise) : Json()}});
    }
    all.push_back(one);
  }
  return all;
}

std::string text_summary(const StitchResults& results) {
  const std::vector<MethodScores> all = mean_scores(results);
  std::vector<std::string> metrics;
  bool swept = false;
  std::optional<StitchPoint> point;
  std::size_t width = 6;
  for (const MethodScores& method : all) {
    width = std::max(width, method.method.size());
    if (method.point != StitchPoint()) {
      swept = swept || (point && *point != method.point);
      point = method.point;
    }
    for (const MeanScore& score : method.scores) {
      if (std::ranges::count(metrics, score.metric) == 0) metrics.push_back(score.metric);
    }
  }
  std::string text = fmt::format(
      "means over zero-shot pairs (absolute: each encoder's own head); ± is half of the 95 % interval\n{:<{}}", "",
      width);
  if (swept) text += fmt::format("{:>9}{:>9}{:>13}", "anchors", "support", "shrinkage");
  for (const std::string& metric : metrics) text += fmt::format("{:>14}", metric);
  for (const MethodScores& method : all) {
    text += fmt::format("\n{:<{}}", method.method, width);
    const auto number = [](std::size_t value) { return value == 0 ? "" : fmt::to_string(value); };
    if (swept)
      text += fmt::format("{:>9}{:>9}{:>13}", number(method.point.anchors), number(method.point.support),
                          method.point.shrinkage);
    for (const std::string& metric : metrics) {
      const auto score = std::ranges::find(method.scores, metric, &MeanScore::metric);
      std::string cell;
      if (score != method.scores.end()) {
        cell = score->text;
        if (score->noise) cell += fmt::format(" ±{:.{}f}", *score->noise, score->digits);
      }
      text += fmt::format("{:>14}", cell);
    }
  }
  for (const std::string& warning : warnings_of(results)) text += "\n" + warning;
  return text;
}

}  // namespace kedge::cli
