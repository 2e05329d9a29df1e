// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stitch/resample.h"

#include <kedge/lab/results.h>

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

// How measurements become one number with its noise. Tables, means and warnings are made from these.
namespace kedge {

enum class Better { larger, smaller, neither };

/// A number of a measurement, and how a table shows it.
struct Metric {
  std::string name;
  std::function<std::optional<double>(const Measurement&)> of;
  Better better = Better::larger;
  int digits = 1;
  double most = std::numeric_limits<double>::infinity();  ///< the largest possible value
  std::string key = {};                                   ///< in Measurement::resampled; empty if it is not resampled
  double scale = 1;                                       ///< factor of the resampled values
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

/// The measurements of one point on which methods can be compared: zero-shot ones of the pairs and seeds that every
/// method has, and the encoders' own heads with those seeds. Absolute heads restrict this too, unless nothing would be
/// left.
[[nodiscard]] Chosen compared(const Chosen& from, const Metric& metric);
/// Those whose pair and seed every method has.
[[nodiscard]] Chosen common(const Chosen& from, const Metric& metric);

/// The mean over pairs is taken seed by seed, so the deviation is between seeds. Resampled only if every measurement
/// is. None if nothing was measured.
[[nodiscard]] std::optional<Estimate> estimate_of(const Chosen& measurements, const Metric& metric);
/// Half of the 95 % interval, but no more than from the mean to the farther end of the metric's range.
[[nodiscard]] std::optional<double> noise_of(const Estimate& estimate, const Metric& metric);
/// Whether the first is better than the second beyond noise.
[[nodiscard]] bool beyond_noise(const Estimate& a, const Estimate& b, Better better);

/// A number as tables show it. Only the largest possible value itself is shown as such: .9999 is not rounded up to 1.
[[nodiscard]] std::string shown(double value, int digits, double most);

/// In the order of the measurements.
[[nodiscard]] std::vector<std::string> methods_of(const Chosen& measurements);
[[nodiscard]] std::vector<std::string> encoders_of(const Chosen& measurements);

}  // namespace kedge
