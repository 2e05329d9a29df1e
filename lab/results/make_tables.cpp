// SPDX-License-Identifier: Apache-2.0
#include "results/make_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace kedge {
namespace {

std::optional<TableCell> cell_of(const Chosen& measurements, const Metric& metric) {
  std::optional<Estimate> estimate = estimate_of(measurements, metric);
  if (!estimate) return std::nullopt;
  const std::optional<double> noise = noise_of(*estimate, metric);
  TableCell cell{std::move(*estimate), metric.better, "", noise ? fmt::format("{:.{}f}", *noise, metric.digits) : "",
                 false};
  cell.text = shown(cell.estimate.mean(), metric.digits, metric.most);
  return cell;
}

bool same_seeds(const TableCell& a, const TableCell& b) {
  return std::ranges::equal(
      a.estimate.seeds, b.estimate.seeds, {}, [](const auto& s) { return s.first; },
      [](const auto& s) { return s.first; });
}

/// Marks the cell that is better than all others beyond noise, if there is one, among every `step`-th from `first` on.
/// Absolute heads take no part. None is marked if it would be alone, or if methods have different seeds.
void mark_best(Table::Row& row, const std::vector<Table::Column>& columns, std::size_t first, std::size_t step) {
  std::vector<TableCell*> rivals;
  for (std::size_t i = first; i < row.cells.size(); i += step) {
    if (row.cells[i] && columns[i].method != "absolute") rivals.push_back(&row.cells[i].value());
  }
  if (rivals.size() < 2 || rivals.front()->better == Better::neither) return;
  if (!std::ranges::all_of(rivals, [&](const TableCell* cell) { return same_seeds(*cell, *rivals.front()); })) return;
  for (TableCell* cell : rivals) {
    cell->best = std::ranges::all_of(rivals, [&](const TableCell* other) {
      return other == cell || beyond_noise(cell->estimate, other->estimate, cell->better);
    });
  }
}

using Pair = std::pair<std::string, std::string>;

std::vector<Pair> pairs_of(const Chosen& measurements, bool zero_shot_only, bool by_source) {
  std::vector<Pair> pairs;
  for (const Measurement* m : measurements) {
    if (zero_shot_only && !m->zero_shot()) continue;
    const Pair pair = by_source ? Pair{m->trained_on, m->encoder} : Pair{m->encoder, m->trained_on};
    if (std::ranges::count(pairs, pair) == 0) pairs.push_back(pair);
  }
  const std::vector<std::string> order = encoders_of(measurements);
  std::ranges::stable_sort(pairs, {}, [&](const Pair& p) { return std::ranges::find(order, p.first) - order.begin(); });
  return pairs;
}

/// A row per pair of spaces, a column per method and metric.
Table by_pair(const Chosen& measurements, const std::vector<Metric>& metrics, bool by_source) {
  Table table;
  table.label_names = by_source ? std::vector<std::string>{"source", "zero-shot encoder"}
                                : std::vector<std::string>{"encoder", "head trained on"};
  std::vector<std::string> methods = methods_of(measurements);
  if (by_source) std::erase(methods, "absolute");
  for (const std::string& method : methods) {
    for (const Metric& metric : metrics) table.columns.push_back({method, metrics.size() == 1 ? "" : metric.name});
  }
  for (const Pair& pair : pairs_of(measurements, by_source, by_source)) {
    Table::Row row{{pair.first, pair.second}, {}};
    const Pair wanted = by_source ? Pair{pair.second, pair.first} : pair;
    const Chosen here =
        chosen(measurements, [&](const Measurement& m) { return Pair(m.encoder, m.trained_on) == wanted; });
    for (const std::string& method : methods) {
      const Chosen its = chosen(here, [&](const Measurement& m) { return m.method == method; });
      for (const Metric& metric : metrics) row.cells.push_back(cell_of(its, metric));
    }
    for (std::size_t i = 0; i < metrics.size() && pair.first != pair.second; ++i) {
      mark_best(row, table.columns, i, metrics.size());
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

bool has_any(const Table::Row& row) {
  return std::ranges::any_of(row.cells, [](const auto& cell) { return cell.has_value(); });
}

void add_row(Table& table, std::vector<std::string> labels, const Chosen& measurements, const Metric& metric) {
  Table::Row row{std::move(labels), {}};
  for (const Table::Column& column : table.columns) {
    row.cells.push_back(
        cell_of(chosen(measurements, [&](const Measurement& m) { return m.method == column.method; }), metric));
  }
  mark_best(row, table.columns, 0, 1);
  if (has_any(row)) table.rows.push_back(std::move(row));
}

std::string means_words(const Chosen& measurements) {
  const bool one = std::ranges::all_of(measurements, [&](auto* m) { return m->seed == measurements.front()->seed; });
  return fmt::format("Means over the zero-shot pairs{} that all methods were measured on", one ? "" : " and seeds");
}

/// A row per metric, a column per method: means over all pairs, and over encoders for heads on their own.
Table by_method(const Chosen& measurements) {
  Table table{"means",
              "Metrics",
              fmt::format("{}; own: over heads on the encoder they were trained on.", means_words(measurements)),
              {"metric"},
              {},
              {}};
  for (const std::string& method : methods_of(measurements)) table.columns.push_back({method, ""});
  const auto own = [](const Measurement& m) { return !m.zero_shot(); };
  const auto zero_shot = [](const Measurement& m) { return m.zero_shot(); };
  for (const Metric& metric : all_metrics()) {
    const Chosen fair = compared(measurements, metric);
    add_row(table, {metric.name}, chosen(fair, zero_shot), metric);
    const bool of_heads =
        metric.name == f1_metric().name || metric.name == mse_metric().name || metric.name == psnr_metric().name;
    if (of_heads) add_row(table, {metric.name + " own"}, common(chosen(fair, own), metric), metric);
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

Chosen at(const StitchResults& results, const StitchPoint& point) {
  return chosen(all_of(results), [&](const Measurement& m) { return m.point == StitchPoint() || m.point == point; });
}

/// A row per point of a sweep, a column per method.
Table by_point(const StitchResults& results, const Metric& metric, const std::set<StitchPoint>& points) {
  Table table{"sweep",
              "Sweep: " + metric.name,
              fmt::format("{} at the point.", means_words(all_of(results))),
              {"anchors", "support", "shrinkage"},
              {},
              {}};
  for (const std::string& method : methods_of(all_of(results))) {
    if (method != "absolute") table.columns.push_back({method, ""});
  }
  for (const StitchPoint& point : points) {
    const Chosen fair =
        chosen(compared(at(results, point), metric), [](const Measurement& m) { return m.zero_shot(); });
    add_row(table, {fmt::to_string(point.anchors), fmt::to_string(point.support), point.shrinkage}, fair, metric);
  }
  return table;
}

class Tables {
 public:
  void add(Table table) {
    if (!std::ranges::any_of(table.rows, has_any)) return;
    std::set<std::string> over;
    for (const Table::Row& row : table.rows) {
      for (const auto& cell : row.cells) {
        if (!cell || cell->noise.empty()) continue;
        if (!cell->estimate.resampled.empty()) over.insert("test rows");
        if (cell->estimate.seeds.size() > 1) over.insert("seeds");
      }
    }
    if (!over.empty()) {
      table.caption +=
          fmt::format(" ± is half of the 95 % interval over {}; bold is better than all others beyond noise.",
                      fmt::join(over.rbegin(), over.rend(), " and "));
    }
    made_.push_back(std::move(table));
  }
  void add(Table table, const char* kind, const char* title, const char* caption) {
    table.kind = kind;
    table.title = title;
    table.caption = caption;
    add(std::move(table));
  }
  [[nodiscard]] std::vector<Table> made() && { return std::move(made_); }

 private:
  std::vector<Table> made_;
};

/// How far a shrinkage is from the usual one; the name of a rule is farther than all numbers.
double oddness(const std::string& shrinkage) {
  double value = 0;
  const auto [end, problem] = std::from_chars(shrinkage.data(), shrinkage.data() + shrinkage.size(), value);
  const bool number = problem == std::errc() && end == shrinkage.data() + shrinkage.size();
  return number ? std::abs(value - WhiteningOptions().shrinkage) : std::numeric_limits<double>::infinity();
}

}  // namespace

StitchPoint reference_point(const StitchResults& results) {
  StitchPoint best;
  for (const Measurement& m : results.measurements) {  // in order, so that the first of two equal ones is taken
    const auto rank = [](const StitchPoint& p) { return std::tuple(p.anchors, p.support, -oddness(p.shrinkage)); };
    if (m.point != StitchPoint() && (best == StitchPoint() || rank(m.point) > rank(best))) best = m.point;
  }
  return best;
}

std::vector<Table> make_tables(const StitchResults& results) {
  Tables tables;
  const std::set<StitchPoint> points = points_of(results);
  if (points.size() > 1) {
    for (const Metric& metric : all_metrics()) tables.add(by_point(results, metric, points));
  }
  const Chosen measurements = at(results, reference_point(results));
  tables.add(by_pair(measurements, {f1_metric()}, false), "heads", "Stitched heads",
             "Weighted F1 in %. Each head is used on the encoder named first and was trained on the features of the "
             "second, which may be the same. Absolute: a head on the encoder's own embeddings.");
  tables.add(by_pair(measurements, {mse_metric()}, false), "decoders", "Stitched decoders",
             "Mean squared error of decoded targets. Absolute: a decoder of the encoder's own embeddings.");
  tables.add(by_pair(measurements, retrieval_metrics(), true), "retrieval", "Retrieval",
             "How often the nearest row of the zero-shot encoder, or one of its nearest 5, is the same item, in %, and "
             "the mean of 1 / rank.");
  tables.add(by_method(measurements));
  return std::move(tables).made();
}

}  // namespace kedge
