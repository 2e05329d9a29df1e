// SPDX-License-Identifier: Apache-2.0
#include "results/aggregate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace kedge {
namespace {

constexpr double kPoints = 2;  // of F1; a smaller gap does not matter, however certain it is

/// The measurements of a method at a point that can be compared with other methods, or all if none can.
Chosen zero_shot_of(const Chosen& all, const std::string& method, const StitchPoint& point, const Metric& metric) {
  const auto wanted = [&](const Measurement& m) {
    return m.method == method && m.point == point && (m.zero_shot() || method == "absolute");
  };
  const auto here = [&](const Measurement& m) { return m.method == "absolute" || m.point == point; };
  const Chosen fair = chosen(method == "absolute" ? all : compared(chosen(all, here), metric), wanted);
  return fair.empty() ? chosen(all, wanted) : fair;
}

}  // namespace

std::vector<MethodScores> mean_scores(const StitchResults& results) {
  const Chosen all = all_of(results);
  std::vector<MethodScores> found;
  for (const Measurement& m : results.measurements) {
    const auto same = [&](const MethodScores& s) { return s.method == m.method && s.point == m.point; };
    if (std::ranges::any_of(found, same)) continue;
    MethodScores scores{m.method, m.point, {}};
    for (const Metric& metric : all_metrics()) {
      const std::optional<Estimate> estimate = estimate_of(zero_shot_of(all, m.method, m.point, metric), metric);
      if (!estimate) continue;
      scores.scores.push_back({metric.name, estimate->mean(), estimate->std(), noise_of(*estimate, metric),
                               shown(estimate->mean(), metric.digits, metric.most), metric.digits});
    }
    found.push_back(std::move(scores));
  }
  return found;
}

std::vector<std::string> head_warnings(const StitchResults& results) {
  const Chosen own =
      chosen(all_of(results), [](const Measurement& m) { return m.linear_f1.has_value() && m.labels.has_value(); });
  std::vector<std::string> warnings;
  for (const std::string& method : methods_of(own)) {
    std::vector<std::string> below;
    double widest = 0;
    std::string reached;
    for (const std::string& encoder : encoders_of(own)) {  // one by one: an encoder above would hide another below
      const Chosen here = chosen(own, [&](const Measurement& m) { return m.method == method && m.encoder == encoder; });
      const auto heads = estimate_of(here, f1_metric());
      const auto logistic = estimate_of(here, linear_f1_metric());
      if (!heads || !logistic) continue;
      const Estimate gap = difference(*logistic, *heads);
      if (gap.mean() < std::max(kPoints, gap.noise().value_or(0))) continue;
      below.push_back(encoder);
      if (gap.mean() <= widest) continue;
      widest = gap.mean();
      reached = fmt::format("on {} they reach an F1 of {} %, logistic regression on the same features {} %", encoder,
                            shown(heads->mean(), 1, 100), shown(logistic->mean(), 1, 100));
    }
    if (below.empty()) continue;
    warnings.push_back(
        fmt::format("The heads of {} are undertrained on {}: {}. Differences between methods may be those of training; "
                    "linear heads, which are solved to the end, tell them apart.",
                    method, fmt::join(below, ", "), reached));
  }
  return warnings;
}

std::vector<std::string> anchor_notes(const StitchResults& results) {
  std::map<std::pair<std::string, std::size_t>, std::set<std::size_t>> found;  // by method and number asked for
  for (const StitchRun& run : results.runs) {
    if (run.found_anchors == 0 || run.found_anchors >= run.point.anchors) continue;
    found[{run.method, run.point.anchors}].insert(run.found_anchors);
  }
  std::vector<std::string> notes;
  for (const auto& [asked, numbers] : found) {
    const std::size_t least = *numbers.begin(), most = *numbers.rbegin();
    notes.push_back(
        fmt::format("{} has {} anchors, not {}: that is how many directions its sources share.", asked.first,
                    least == most ? fmt::to_string(least) : fmt::format("{} to {}", least, most), asked.second));
  }
  return notes;
}

std::vector<std::string> warnings_of(const StitchResults& results) {
  std::vector<std::string> all = head_warnings(results);
  std::ranges::move(anchor_notes(results), std::back_inserter(all));
  return all;
}

}  // namespace kedge
