// SPDX-License-Identifier: Apache-2.0
#include "results/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace kedge {
namespace {

enum class Better { larger, smaller, neither };

/// A number of a measurement, and how a table shows it.
struct Metric {
  std::string name;
  std::function<std::optional<double>(const Measurement&)> of;
  Better better = Better::larger;
  int digits = 1;
  double most = std::numeric_limits<double>::infinity();  ///< a value can have
  std::string key = {};  ///< of Measurement::resampled; empty for what is not resampled
  double scale = 1;      ///< what that is multiplied with
};

template <class Part>
auto part_of(std::optional<Part> Measurement::*part, double Part::*member, double scale = 1) {
  return [=](const Measurement& m) -> std::optional<double> {
    if (!(m.*part)) return std::nullopt;
    return scale * (*(m.*part)).*member;
  };
}

auto recall(std::size_t index) {
  return [index](const Measurement& m) -> std::optional<double> {
    if (!m.pair || index >= m.pair->recall.size()) return std::nullopt;
    return 100 * m.pair->recall[index];
  };
}

const Metric& f1() {
  static const Metric metric{
      "F1", part_of(&Measurement::labels, &Classification::weighted_f1, 100), Better::larger, 1, 100, "weighted_f1",
      100};
  return metric;
}
const Metric& mse() {
  static const Metric metric{"MSE", part_of(&Measurement::targets, &Regression::mse), Better::smaller,
                             4,     std::numeric_limits<double>::infinity(),          "mse"};
  return metric;
}
Metric recall_metric(std::size_t index) {
  const std::size_t at = CompareOptions().recall_at.at(index);
  return {fmt::format("R@{}", at), recall(index), Better::larger, 1, 100, fmt::format("recall@{}", at), 100};
}
std::vector<Metric> retrieval_metrics() {
  return {recall_metric(0), recall_metric(1)};
}

std::vector<Metric> all_metrics() {
  std::vector<Metric> metrics{f1(),
                              {"accuracy", part_of(&Measurement::labels, &Classification::accuracy, 100),
                               Better::larger, 1, 100, "accuracy", 100}};
  metrics.push_back({"MRR", part_of(&Measurement::pair, &Comparison::mrr), Better::larger, 3, 1, "mrr"});
  for (std::size_t i = 0; i < CompareOptions().recall_at.size(); ++i) {
    metrics.push_back(recall_metric(i));
  }
  metrics.push_back({"nMSE", part_of(&Measurement::pair, &Comparison::nmse), Better::smaller, 3});
  metrics.push_back({"RR_std", [](const Measurement& m) { return m.rr_std; }, Better::neither, 3});
  metrics.push_back(mse());
  metrics.push_back({"PSNR", part_of(&Measurement::targets, &Regression::psnr), Better::larger, 2});
  return metrics;
}

/// The mean over pairs is taken seed by seed, so that the deviation is that between seeds. Resampled only if every
/// measurement is.
template <class Keep>
std::optional<Estimate> estimate_of(const StitchResults& results, const Metric& metric, const Keep& keep) {
  struct Sum {
    double value = 0;
    std::size_t count = 0;
    std::vector<double> resampled = std::vector<double>(Resamples::kCount);
  };
  std::map<std::uint64_t, Sum> seeds;
  bool all_resampled = !metric.key.empty();
  for (const Measurement& m : results.measurements) {
    if (!keep(m)) continue;
    const std::optional<double> value = metric.of(m);
    if (!value) continue;
    Sum& sum = seeds[m.seed];
    sum.value += *value;
    ++sum.count;
    const auto found = m.resampled.find(metric.key);
    all_resampled = all_resampled && found != m.resampled.end() && found->second.size() == Resamples::kCount;
    for (std::size_t i = 0; i < Resamples::kCount && all_resampled; ++i) {
      sum.resampled[i] += metric.scale * found->second[i];
    }
  }
  if (seeds.empty()) return std::nullopt;
  Estimate estimate;
  if (all_resampled) estimate.resampled.resize(Resamples::kCount);
  for (const auto& [seed, sum] : seeds) {
    estimate.seeds[seed] = sum.value / static_cast<double>(sum.count);
    for (std::size_t i = 0; i < estimate.resampled.size(); ++i) {
      estimate.resampled[i] += sum.resampled[i] / static_cast<double>(sum.count * seeds.size());
    }
  }
  return estimate;
}

/// Half of the 95 % interval, which does not leave the values that the metric can have at both ends.
std::optional<double> noise_of(const Estimate& estimate, const Metric& metric) {
  const std::optional<double> noise = estimate.noise();
  if (!noise) return std::nullopt;
  return std::min(*noise, std::max(estimate.mean(), metric.most - estimate.mean()));
}

template <class Keep>
std::optional<TableCell> cell_of(const StitchResults& results, const Metric& metric, const Keep& keep) {
  std::optional<Estimate> estimate = estimate_of(results, metric, keep);
  if (!estimate) return std::nullopt;
  const std::optional<double> noise = noise_of(*estimate, metric);
  TableCell cell{std::move(*estimate), "", noise ? fmt::format("{:.{}f}", *noise, metric.digits) : "", false};
  cell.text = shown(cell.estimate.mean(), metric.digits, metric.most);
  return cell;
}

/// Whether the first is better than the second by more than chance would make of it.
bool beyond_noise(const Estimate& a, const Estimate& b, Better better) {
  const Estimate gap = better == Better::larger ? difference(a, b) : difference(b, a);
  const std::optional<double> noise = gap.seeds.empty() ? std::nullopt : gap.noise();
  return noise && gap.mean() > *noise;
}

/// Marks the one that is better than all others beyond noise, if there is one. Columns that are references take no
/// part, and nobody is best alone.
void mark_best(std::vector<std::optional<TableCell>>& cells, Better better, std::size_t first, std::size_t step,
               const std::vector<bool>& reference) {
  if (better == Better::neither) return;
  std::vector<std::size_t> rivals;
  for (std::size_t i = first; i < cells.size(); i += step) {
    if (cells[i] && !reference[i]) rivals.push_back(i);
  }
  for (const std::size_t i : rivals) {
    cells[i]->best = rivals.size() > 1 && std::ranges::all_of(rivals, [&](std::size_t other) {
                       return other == i || beyond_noise(cells[i]->estimate, cells[other]->estimate, better);
                     });
  }
}

std::vector<std::string> methods_of(const StitchResults& results) {
  std::vector<std::string> methods;
  for (const Measurement& m : results.measurements) {
    if (std::ranges::count(methods, m.method) == 0) methods.push_back(m.method);
  }
  return methods;
}

/// In the order that results are sorted by.
std::vector<std::string> encoders_of(const StitchResults& results) {
  std::vector<std::string> encoders;
  for (const Measurement& m : results.measurements) {
    if (std::ranges::count(encoders, m.encoder) == 0) encoders.push_back(m.encoder);
  }
  return encoders;
}

using Pair = std::pair<std::string, std::string>;

std::vector<Pair> pairs_of(const StitchResults& results, bool zero_shot_only, bool by_source) {
  std::vector<Pair> pairs;
  for (const Measurement& m : results.measurements) {
    if (zero_shot_only && !m.zero_shot()) continue;
    const Pair pair = by_source ? Pair{m.trained_on, m.encoder} : Pair{m.encoder, m.trained_on};
    if (std::ranges::count(pairs, pair) == 0) pairs.push_back(pair);
  }
  const std::vector<std::string> order = encoders_of(results);
  std::ranges::stable_sort(pairs, {}, [&](const Pair& p) { return std::ranges::find(order, p.first) - order.begin(); });
  return pairs;
}

/// A row per pair of spaces, a column per method and metric.
Table by_pair(const StitchResults& results, const std::vector<Metric>& metrics, bool by_source) {
  Table table;
  table.label_names = by_source ? std::vector<std::string>{"source", "zero-shot encoder"}
                                : std::vector<std::string>{"encoder", "head trained on"};
  std::vector<std::string> methods = methods_of(results);
  if (by_source) std::erase(methods, "absolute");
  std::vector<bool> reference;
  for (const std::string& method : methods) {
    for (const Metric& metric : metrics) {
      table.columns.push_back(metrics.size() == 1 ? method : method + " " + metric.name);
      reference.push_back(method == "absolute");
    }
  }
  for (const Pair& pair : pairs_of(results, by_source, by_source)) {
    Table::Row row{{pair.first, pair.second}, {}};
    const Pair wanted = by_source ? Pair{pair.second, pair.first} : pair;
    for (const std::string& method : methods) {
      for (const Metric& metric : metrics) {
        row.cells.push_back(cell_of(results, metric, [&](const Measurement& m) {
          return m.method == method && m.encoder == wanted.first && m.trained_on == wanted.second;
        }));
      }
    }
    for (std::size_t i = 0; i < metrics.size() && pair.first != pair.second; ++i) {
      mark_best(row.cells, metrics[i].better, i, metrics.size(), reference);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

bool has_any(const Table::Row& row) {
  return std::ranges::any_of(row.cells, [](const auto& cell) { return cell.has_value(); });
}

/// A row per metric, a column per method: means over all zero-shot pairs.
Table by_method(const StitchResults& results) {
  Table table{"Metrics",
              "Means over all zero-shot pairs that each method was measured on.",
              {"metric"},
              methods_of(results),
              {}};
  std::erase(table.columns, "absolute");
  for (const Metric& metric : all_metrics()) {
    Table::Row row{{metric.name}, {}};
    for (const std::string& method : table.columns) {
      row.cells.push_back(
          cell_of(results, metric, [&](const Measurement& m) { return m.method == method && m.zero_shot(); }));
    }
    mark_best(row.cells, metric.better, 0, 1, std::vector<bool>(row.cells.size()));
    if (has_any(row)) table.rows.push_back(std::move(row));
  }
  return table;
}

std::set<StitchPoint> points_of(const StitchResults& results) {
  std::set<StitchPoint> points;
  for (const Measurement& m : results.measurements) {
    if (m.point != StitchPoint()) points.insert(m.point);
  }
  return points;
}

/// A row per point of a sweep, a column per method.
Table by_point(const StitchResults& results, const Metric& metric, const std::set<StitchPoint>& points) {
  Table table{"Sweep: " + metric.name,
              "Means over all zero-shot pairs that each method was measured on.",
              {"anchors", "support", "shrinkage"},
              methods_of(results),
              {}};
  std::erase(table.columns, "absolute");
  for (const StitchPoint& point : points) {
    Table::Row row{{fmt::to_string(point.anchors), fmt::to_string(point.support), point.shrinkage}, {}};
    for (const std::string& method : table.columns) {
      row.cells.push_back(cell_of(results, metric, [&](const Measurement& m) {
        return m.method == method && m.zero_shot() && m.point == point;
      }));
    }
    mark_best(row.cells, metric.better, 0, 1, std::vector<bool>(row.cells.size()));
    if (has_any(row)) table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

std::vector<MethodScores> mean_scores(const StitchResults& results) {
  std::vector<MethodScores> all;
  std::vector<std::pair<std::string, StitchPoint>> keys;
  for (const Measurement& m : results.measurements) {
    const std::pair key{m.method, m.point};
    if (std::ranges::count(keys, key) > 0) continue;
    keys.push_back(key);
    MethodScores scores{m.method, m.point, {}};
    for (const Metric& metric : all_metrics()) {
      const auto cell = cell_of(results, metric, [&](const Measurement& other) {
        return std::pair{other.method, other.point} == key && (other.zero_shot() || other.method == "absolute");
      });
      if (!cell) continue;
      const Estimate& estimate = cell->estimate;
      scores.scores.push_back(
          {metric.name, estimate.mean(), estimate.std(), noise_of(estimate, metric), cell->text, metric.digits});
    }
    all.push_back(std::move(scores));
  }
  return all;
}

std::vector<std::string> head_warnings(const StitchResults& results) {
  constexpr double kPoints = 2;  // fewer are no matter, however sure
  static const Metric linear{"linear",
                             [](const Measurement& m) -> std::optional<double> {
                               if (!m.linear_f1) return std::nullopt;
                               return 100 * *m.linear_f1;
                             },
                             Better::larger,
                             1,
                             100,
                             "linear_f1",
                             100};
  std::vector<std::string> warnings;
  for (const std::string& method : methods_of(results)) {
    std::vector<std::string> below;
    double widest = 0;
    std::string reached;
    for (const std::string& encoder : encoders_of(results)) {  // one that is above would hide another that is below
      const auto own = [&](const Measurement& m) {
        return m.method == method && m.encoder == encoder && m.linear_f1 && m.labels;
      };
      const auto heads = cell_of(results, f1(), own);
      const auto logistic = cell_of(results, linear, own);
      if (!heads || !logistic) continue;
      const Estimate gap = difference(logistic->estimate, heads->estimate);
      if (gap.mean() < std::max(kPoints, gap.noise().value_or(0))) continue;
      below.push_back(encoder);
      if (gap.mean() <= widest) continue;
      widest = gap.mean();
      reached = fmt::format("on {} they reach an F1 of {} %, logistic regression on the same features {} %", encoder,
                            heads->text, logistic->text);
    }
    if (below.empty()) continue;
    warnings.push_back(
        fmt::format("The heads of {} are undertrained on {}: {}. Differences between methods may be those of training; "
                    "linear heads, which are solved to the end, tell them apart.",
                    method, fmt::join(below, ", "), reached));
  }
  return warnings;
}

std::string shown(double value, int digits, double most) {
  std::string text = fmt::format("{:.{}f}", value, digits);
  const std::string full = fmt::format("{:.{}f}", most, digits);
  const double unit = std::pow(10, -digits);
  constexpr double kRounding = 1e-9;
  return value < most * (1 - kRounding) && text == full ? fmt::format("{:.{}f}", most - unit, digits) : text;
}

std::vector<Table> make_tables(const StitchResults& results) {
  std::vector<Table> tables;
  const auto add = [&tables](Table table, const char* title, const char* caption) {
    if (!std::ranges::any_of(table.rows, has_any)) return;
    if (*title != 0) table.title = title;
    if (*caption != 0) table.caption = caption;
    const auto has_noise = [](const auto& cell) { return cell && !cell->noise.empty(); };
    const bool noisy = std::ranges::any_of(
        table.rows, [&](const Table::Row& row) { return std::ranges::any_of(row.cells, has_noise); });
    if (noisy) {
      table.caption +=
          " ± is half of the 95 % interval over test rows and seeds; bold is better than all others beyond "
          "noise.";
    }
    tables.push_back(std::move(table));
  };
  const std::set<StitchPoint> points = points_of(results);
  if (points.size() > 1) {
    for (const Metric& metric : all_metrics()) add(by_point(results, metric, points), "", "");
    return tables;
  }
  add(by_pair(results, {f1()}, false), "Stitched heads",
      "Weighted F1 in %. Each head is used on the encoder named first and was trained on the features of the second, "
      "which may be the same. Absolute: a head on the encoder's own embeddings.");
  add(by_pair(results, {mse()}, false), "Stitched decoders",
      "Mean squared error of decoded targets. Absolute: a decoder of the encoder's own embeddings.");
  add(by_pair(results, retrieval_metrics(), true), "Retrieval",
      "How often the nearest row of the zero-shot encoder, or one of its nearest 5, is the same item, in %.");
  add(by_method(results), "", "");
  return tables;
}

}  // namespace kedge
