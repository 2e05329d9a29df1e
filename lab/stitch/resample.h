// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kedge {

/// A bootstrap of the test rows: how often each is drawn in each of kCount resamples. All measurements on the same
/// number of rows share their resamples, so methods can be compared resample by resample: rows that are hard for both
/// cancel.
class Resamples {
 public:
  static constexpr std::size_t kCount = 100;

  explicit Resamples(std::size_t rows);

  /// The mean over rows, in each resample.
  [[nodiscard]] std::vector<double> means(std::span<const double> values) const;
  [[nodiscard]] std::vector<double> weighted_f1(std::span<const std::int64_t> truth,
                                                std::span<const std::int64_t> predicted) const;

 private:
  [[nodiscard]] std::span<const std::uint8_t> times(std::size_t resample) const {
    return std::span(times_).subspan(resample * rows_, rows_);
  }
  std::size_t rows_;
  std::vector<std::uint8_t> times_;
};

/// A mean over pairs and seeds, and what its noise is computed from.
struct Estimate {
  static constexpr std::size_t kSeedsOfStudent = 3;

  std::map<std::uint64_t, double> seeds;  ///< the mean over pairs for each seed
  std::vector<double> resampled;          ///< the mean over both in each resample of the test rows; may be empty

  [[nodiscard]] double mean() const;
  /// Standard deviation between seeds; none for one seed.
  [[nodiscard]] std::optional<double> std() const;
  /// Half of the 95 % interval around the mean: Student's t times the root of the sum of two variances, over resamples
  /// of the test rows and of a mean over seeds. With fewer than kSeedsOfStudent seeds it takes the normal quantile,
  /// because t for one degree of freedom, 12.7, exaggerates. None for so few seeds without resamples.
  [[nodiscard]] std::optional<double> noise() const;
};

/// a - b on the seeds that both have, and resample by resample.
[[nodiscard]] Estimate difference(const Estimate& a, const Estimate& b);

}  // namespace kedge
