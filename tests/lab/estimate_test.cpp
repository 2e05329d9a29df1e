// SPDX-License-Identifier: Apache-2.0
#include "stitch/resample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

namespace kedge {
namespace {

TEST(Resamples, HaveTheSpreadThatAShareHas) {
  std::vector<double> right(400);
  std::vector<std::int64_t> truth(400);
  std::vector<std::int64_t> predicted(400);
  for (std::size_t i = 0; i < right.size(); ++i) {
    truth[i] = static_cast<std::int64_t>(i % 2);
    right[i] = i % 5 == 0 ? 0 : 1;
    predicted[i] = i % 5 == 0 ? 1 - truth[i] : truth[i];
  }
  const Resamples resamples(400);
  const Estimate share{{{0, 0.8}}, resamples.means(right)};
  EXPECT_NEAR(share.noise().value(), 1.96 * std::sqrt(0.8 * 0.2 / 400), 0.01);
  const Estimate f1{{{0, 0.8}}, resamples.weighted_f1(truth, predicted)};
  EXPECT_NEAR(f1.noise().value(), share.noise().value(), 0.005);
  EXPECT_EQ(difference(share, share).noise(), 0);  // the same rows are drawn for all
}

TEST(Estimate, AddsTheSpreadOverSeedsToThatOverRows) {
  EXPECT_FALSE((Estimate{{{0, 1.0}}, {}}.noise()));
  EXPECT_NEAR((Estimate{{{0, 1.0}, {1, 3.0}, {2, 2.0}}, {}}.noise().value()), 4.303 / std::sqrt(3.0), 0.05);
  std::vector<double> rows(Resamples::kCount);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i % 2 == 0 ? 1 : 3;
  // The variances add up, 1/3 and 1; Student's t of the 27 degrees of freedom that they have together is 2.05.
  EXPECT_NEAR((Estimate{{{0, 1.0}, {1, 3.0}, {2, 2.0}}, rows}.noise().value()), 2.05 * std::sqrt(1 + 1 / 3.0), 0.05);
}

TEST(Estimate, OfTwoSeedsTakesTheNormalQuantile) {
  const std::map<std::uint64_t, double> seeds{{0, 41.0}, {1, 81.0}};
  EXPECT_FALSE((Estimate{seeds, {}}.noise()));
  std::vector<double> rows(Resamples::kCount);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i % 2 == 0 ? 60 : 62;
  EXPECT_NEAR((Estimate{seeds, rows}.noise().value()), 1.96 * std::sqrt(400 + 1), 0.1);
}

}  // namespace
}  // namespace kedge
