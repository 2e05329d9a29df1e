// SPDX-License-Identifier: Apache-2.0
#include "stitch/resample.h"

#include "base/random.h"

#include <cmath>
#include <limits>
#include <numeric>

namespace kedge {
namespace {

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Variance of a sample of at least two values.
double variance_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return squares / static_cast<double>(values.size() - 1);
}

constexpr double kNormal = 1.960;  // 97.5 % quantile

/// The same quantile of Student's t, by its expansion around the normal: within 1 % from 2 degrees of freedom on.
double student(double freedom) {
  const double x = 1 / freedom;
  return kNormal + x * (2.372 + x * (2.823 + x * (2.556 + x * 1.590)));
}

std::vector<double> values_of(const std::map<std::uint64_t, double>& seeds) {
  std::vector<double> values;
  for (const auto& [seed, value] : seeds) values.push_back(value);
  return values;
}

}  // namespace

Resamples::Resamples(std::size_t rows) : rows_(rows), times_(kCount * rows) {
  Random random(0);  // a fixed seed, so that results of different runs can be compared
  for (std::size_t resample = 0; resample < kCount; ++resample) {
    for (std::size_t i = 0; i < rows; ++i) {
      std::uint8_t& drawn = times_[resample * rows + random.below(rows)];
      if (drawn < std::numeric_limits<std::uint8_t>::max()) ++drawn;
    }
  }
}

std::vector<double> Resamples::means(std::span<const double> values) const {
  std::vector<double> result;
  for (std::size_t resample = 0; resample < kCount; ++resample) {
    double sum = 0;
    double count = 0;
    for (std::size_t i = 0; i < rows_; ++i) {
      sum += times(resample)[i] * values[i];
      count += times(resample)[i];
    }
    result.push_back(sum / count);
  }
  return result;
}

std::vector<double> Resamples::weighted_f1(std::span<const std::int64_t> truth,
                                           std::span<const std::int64_t> predicted) const {
  std::map<std::int64_t, std::size_t> places;
  const auto place = [&](std::int64_t label) { return places.try_emplace(label, places.size()).first->second; };
  std::vector<std::size_t> truly;
  std::vector<std::size_t> said;
  for (std::size_t i = 0; i < rows_; ++i) {
    truly.push_back(place(truth[i]));
    said.push_back(place(predicted[i]));
  }
  struct Counts {
    double right = 0, truly = 0, predicted = 0;
  };
  std::vector<double> result;
  for (std::size_t resample = 0; resample < kCount; ++resample) {
    std::vector<Counts> classes(places.size());
    for (std::size_t i = 0; i < rows_; ++i) {
      const double weight = times(resample)[i];
      classes[truly[i]].truly += weight;
      classes[said[i]].predicted += weight;
      if (truly[i] == said[i]) classes[truly[i]].right += weight;
    }
    double f1 = 0;
    double total = 0;
    for (const Counts& c : classes) {
      if (c.truly > 0) f1 += c.truly * 2 * c.right / (c.truly + c.predicted);
      total += c.truly;
    }
    result.push_back(f1 / total);
  }
  return result;
}

double Estimate::mean() const {
  return mean_of(values_of(seeds));
}

std::optional<double> Estimate::std() const {
  if (seeds.size() < 2) return std::nullopt;
  return std::sqrt(variance_of(values_of(seeds)));
}

std::optional<double> Estimate::noise() const {
  double total = 0;
  double doubt = 0;  // square of the total variance over its degrees of freedom (Welch and Satterthwaite)
  const auto add = [&](double variance, std::size_t values) {
    total += variance;
    doubt += variance * variance / static_cast<double>(values - 1);
  };
  const bool few = seeds.size() < kSeedsOfStudent;
  if (few && resampled.size() < 2) return std::nullopt;
  if (seeds.size() > 1) add(variance_of(values_of(seeds)) / static_cast<double>(seeds.size()), seeds.size());
  if (resampled.size() > 1) add(variance_of(resampled), resampled.size());
  if (total <= 0) return 0;
  return (few ? kNormal : student(total * total / doubt)) * std::sqrt(total);
}

Estimate difference(const Estimate& a, const Estimate& b) {
  Estimate result;
  for (const auto& [seed, value] : a.seeds) {
    const auto other = b.seeds.find(seed);
    if (other != b.seeds.end()) result.seeds[seed] = value - other->second;
  }
  if (a.resampled.size() != b.resampled.size()) return result;
  for (std::size_t i = 0; i < a.resampled.size(); ++i) result.resampled.push_back(a.resampled[i] - b.resampled[i]);
  return result;
}

}  // namespace kedge
