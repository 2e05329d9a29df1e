// SPDX-License-Identifier: Apache-2.0
#include "results/aggregate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace kedge {
namespace {

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

Metric recall_metric(std::size_t index) {
  const std::size_t at = CompareOptions().recall_at.at(index);
  return {fmt::format("R@{}", at), recall(index), Better::larger, 1, 100, fmt::format("recall@{}", at), 100};
}
Metric mrr_metric() {
  return {"MRR", part_of(&Measurement::pair, &Comparison::mrr), Better::larger, 3, 1, "mrr"};
}

std::vector<std::string> names_of(const Chosen& measurements, std::string Measurement::*member) {
  std::vector<std::string> names;
  for (const Measurement* m : measurements) {
    if (std::ranges::count(names, m->*member) == 0) names.push_back(m->*member);
  }
  return names;
}

/// The heads whose encoder and seed the others have too.
Chosen on(const Chosen& heads, const Chosen& others) {
  std::set<std::pair<std::string, std::uint64_t>> there;
  for (const Measurement* m : others) there.emplace(m->encoder, m->seed);
  return chosen(heads, [&](const Measurement& m) { return there.contains({m.encoder, m.seed}); });
}

}  // namespace

const Metric& f1_metric() {
  static const Metric metric{
      "F1", part_of(&Measurement::labels, &Classification::weighted_f1, 100), Better::larger, 1, 100, "weighted_f1",
      100};
  return metric;
}
const Metric& mse_metric() {
  static const Metric metric{"MSE", part_of(&Measurement::targets, &Regression::mse), Better::smaller,
                             4,     std::numeric_limits<double>::infinity(),          "mse"};
  return metric;
}
const Metric& linear_f1_metric() {
  static const Metric metric{"linear",
                             [](const Measurement& m) -> std::optional<double> {
                               if (!m.linear_f1) return std::nullopt;
                               return 100 * *m.linear_f1;
                             },
                             Better::larger,
                             1,
                             100,
                             "linear_f1",
                             100};
  return metric;
}
const Metric& psnr_metric() {
  static const Metric metric{"PSNR", part_of(&Measurement::targets, &Regression::psnr), Better::larger, 2};
  return metric;
}

std::vector<Metric> retrieval_metrics() {
  return {recall_metric(0), recall_metric(1), mrr_metric()};
}

std::vector<Metric> all_metrics() {
  std::vector<Metric> metrics{f1_metric(),
                              {"accuracy", part_of(&Measurement::labels, &Classification::accuracy, 100),
                               Better::larger, 1, 100, "accuracy", 100},
                              mrr_metric()};
  for (std::size_t i = 0; i < CompareOptions().recall_at.size(); ++i) metrics.push_back(recall_metric(i));
  metrics.push_back({"nMSE", part_of(&Measurement::pair, &Comparison::nmse), Better::smaller, 3});
  metrics.push_back({"RR_std", [](const Measurement& m) { return m.rr_std; }, Better::neither, 3});
  metrics.push_back(mse_metric());
  metrics.push_back(psnr_metric());
  return metrics;
}

Chosen all_of(const StitchResults& results) {
  Chosen all;
  for (const Measurement& m : results.measurements) all.push_back(&m);
  return all;
}

Chosen common(const Chosen& from, const Metric& metric) {
  const Chosen measured = chosen(from, [&](const Measurement& m) { return metric.of(m).has_value(); });
  using Key = std::tuple<std::string, std::string, std::uint64_t>;
  const auto key = [](const Measurement& m) { return Key(m.encoder, m.trained_on, m.seed); };
  std::map<Key, std::set<std::string>> having;
  for (const Measurement* m : measured) having[key(*m)].insert(m->method);
  const std::size_t methods = methods_of(measured).size();
  return chosen(measured, [&](const Measurement& m) { return having[key(m)].size() == methods; });
}

Chosen compared(const Chosen& from, const Metric& metric) {
  const auto zero_shot = [](const Measurement& m) { return m.zero_shot(); };
  const Chosen measured = chosen(from, [&](const Measurement& m) { return metric.of(m).has_value(); });
  Chosen own = chosen(measured, [](const Measurement& m) { return !m.zero_shot(); });
  if (own.size() == measured.size()) return own;
  Chosen tested = common(chosen(measured, zero_shot), metric);
  const Chosen limited = on(tested, chosen(own, [](const Measurement& m) { return m.method == "absolute"; }));
  if (!limited.empty()) tested = limited;
  Chosen all = tested;
  for (const Measurement* m : on(own, tested)) all.push_back(m);
  return all;
}

std::optional<Estimate> estimate_of(const Chosen& measurements, const Metric& metric) {
  struct Sum {
    double value = 0;
    std::size_t count = 0;
    std::vector<double> resampled = std::vector<double>(Resamples::kCount);
  };
  std::map<std::uint64_t, Sum> seeds;
  bool all_resampled = !metric.key.empty();
  for (const Measurement* m : measurements) {
    const std::optional<double> value = metric.of(*m);
    if (!value) continue;
    Sum& sum = seeds[m->seed];
    sum.value += *value;
    ++sum.count;
    const auto found = m->resampled.find(metric.key);
    all_resampled = all_resampled && found != m->resampled.end() && found->second.size() == Resamples::kCount;
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

std::optional<double> noise_of(const Estimate& estimate, const Metric& metric) {
  const std::optional<double> noise = estimate.noise();
  if (!noise) return std::nullopt;
  return std::min(*noise, std::max(estimate.mean(), metric.most - estimate.mean()));
}

bool beyond_noise(const Estimate& a, const Estimate& b, Better better) {
  const Estimate gap = better == Better::larger ? difference(a, b) : difference(b, a);
  const std::optional<double> noise = gap.seeds.empty() ? std::nullopt : gap.noise();
  return noise && gap.mean() > *noise;
}

std::string shown(double value, int digits, double most) {
  std::string text = fmt::format("{:.{}f}", value, digits);
  const std::string full = fmt::format("{:.{}f}", most, digits);
  const double unit = std::pow(10, -digits);
  constexpr double kRounding = 1e-9;
  return value < most * (1 - kRounding) && text == full ? fmt::format("{:.{}f}", most - unit, digits) : text;
}

std::vector<std::string> methods_of(const Chosen& measurements) {
  return names_of(measurements, &Measurement::method);
}

std::vector<std::string> encoders_of(const Chosen& measurements) {
  return names_of(measurements, &Measurement::encoder);
}

}  // namespace kedge
