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

/// A bootstrap of the test rows: how often each is drawn in each of kCount resamples. Everything measured on the same
/// number of rows has the same resamples, so that differences between methods can be taken resample by resample: what
/// is hard in some rows is hard for both.
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

/// A mean over pairs and seeds with what its noise follows from.
struct Estimate {
  static constexpr std::size_t kSeedsOfStudent = 3;

  std::map<std::uint64_t, double> seeds;  ///< the mean over pairs for each seed
  std::vector<double> resampled;          ///< the mean over both in each resample of the test rows; may be empty

  [[nodiscard]] double mean() const;
  /// Between seeds; none for one.
  [[nodiscard]] std::optional<double> std() const;
  /// Half of the 95 % interval around the mean: the root of the variance over resamples of the test rows plus that of a
  /// mean over seeds, times Student's t. Of fewer seeds than kSeedsOfStudent, times the normal quantile: t of one
  /// degree of freedom, 12.7, would make the doubt about the spread larger than any spread there is. None for so few
  /// without resamples.
  [[nodiscard]] std::optional<double> noise() const;
};

/// a - b on the seeds that both have, and resample by resample.
[[nodiscard]] Estimate difference(const Estimate& a, const Estimate& b);

}  // namespace kedge
