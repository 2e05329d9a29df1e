// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stitch/resample.h"

#include <kedge/lab/results.h>

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

// How measurements become one number with its noise; tables, means and warnings are all made of these.
namespace kedge {

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

[[nodiscard]] const Metric& f1_metric();
[[nodiscard]] const Metric& linear_f1_metric();
[[nodiscard]] const Metric& mse_metric();
[[nodiscard]] const Metric& psnr_metric();
/// R@1, R@5 and MRR.
[[nodiscard]] std::vector<Metric> retrieval_metrics();
[[nodiscard]] std::vector<Metric> all_metrics();

using Chosen = std::vector<const Measurement*>;
template <class Keep>
Chosen chosen(const Chosen& from, const Keep& keep) {
  Chosen kept;
  for (const Measurement* m : from) {
    if (keep(*m)) kept.push_back(m);
  }
  return kept;
}
[[nodiscard]] Chosen all_of(const StitchResults& results);

/// Measurements of one point that methods can be compared on: zero-shot ones of the pairs and seeds that every method
/// has, and heads on those encoders themselves with those seeds. Absolute heads limit this too, unless nothing would be
/// left.
[[nodiscard]] Chosen compared(const Chosen& from, const Metric& metric);
/// Of those, the ones whose pair and seed every method has.
[[nodiscard]] Chosen common(const Chosen& from, const Metric& metric);

/// The mean over pairs is taken seed by seed, so that the deviation is that between seeds. Resampled only if every
/// measurement is. None where nothing was measured.
[[nodiscard]] std::optional<Estimate> estimate_of(const Chosen& measurements, const Metric& metric);
/// Half of the 95 % interval, which does not leave the values that the metric can have at both ends.
[[nodiscard]] std::optional<double> noise_of(const Estimate& estimate, const Metric& metric);
/// Whether the first is better than the second by more than chance would make of it.
[[nodiscard]] bool beyond_noise(const Estimate& a, const Estimate& b, Better better);

/// A number as tables show it: what is below the largest possible value is not rounded up to it.
[[nodiscard]] std::string shown(double value, int digits, double most);

/// In the order of the measurements.
[[nodiscard]] std::vector<std::string> methods_of(const Chosen& measurements);
[[nodiscard]] std::vector<std::string> encoders_of(const Chosen& measurements);

}  // namespace kedge
