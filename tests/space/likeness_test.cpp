// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <cmath>
#include <numeric>

namespace kedge {
namespace {

using test::expect_error;
using test::random_matrix;
using test::space_of;

constexpr std::size_t kDim = 24;

/// Rows of a made-up encoder: directions of very different spread, in an order of the encoder's own, round a mean.
Matrix rows_of_model(std::size_t model, std::size_t rows, unsigned seed, float length = 1) {
  Matrix x = random_matrix(rows, kDim, seed);
  for (std::size_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (std::size_t c = 0; c < kDim; ++c) {
      const auto place = static_cast<float>((c * 7 + model * 5) % kDim);
      x.row(r)[c] = x.row(r)[c] * std::exp(-place / 5) + (c == model ? 1.F : 0.F);
      squares += static_cast<double>(x.row(r)[c]) * static_cast<double>(x.row(r)[c]);
    }
    for (float& value : x.row(r)) value *= length / static_cast<float>(std::sqrt(squares));
  }
  return x;
}

Likeness likeness_of(const Matrix& known) {
  return Likeness(compute_moments(space_of("known", known)));
}

double mean_of(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(Likeness, IsNearNoughtForRowsOfTheModelAndNearOneForOthers) {
  const Likeness likeness = likeness_of(rows_of_model(0, 2000, 1));
  EXPECT_TRUE(likeness.can_tell());
  EXPECT_NEAR(likeness.length(), 1, 1e-3);
  const auto own = likeness.distances(rows_of_model(0, 1000, 2).view());
  const auto other = likeness.distances(rows_of_model(1, 1000, 3).view());
  EXPECT_NEAR(mean_of(own), 0, 0.05);
  EXPECT_GT(mean_of(other), 0.7);
}

TEST(Likeness, OfAnyDirectionIsOneOnAverage) {
  const Likeness likeness = likeness_of(rows_of_model(0, 2000, 1));
  EXPECT_NEAR(mean_of(likeness.distances(random_matrix(4000, kDim, 9).view())), 1, 0.1);
}

TEST(Likeness, ComparesRowsAtOneLength) {
  const Likeness likeness = likeness_of(rows_of_model(0, 2000, 1));
  const auto unit = likeness.distances(rows_of_model(0, 50, 2).view());
  const auto scaled = likeness.distances(rows_of_model(0, 50, 2, 40).view());
  for (std::size_t r = 0; r < unit.size(); ++r) EXPECT_NEAR(unit[r], scaled[r], 1e-3);
}

TEST(Likeness, TakesARowOfZerosForAStranger) {
  EXPECT_EQ(likeness_of(rows_of_model(0, 500, 1)).distances(Matrix(1, kDim).view()).front(), 1);
}

TEST(Likeness, SaysWhereNothingStandsOut) {
  EXPECT_FALSE(likeness_of(random_matrix(2000, kDim, 1)).can_tell());
}

TEST(Likeness, RefusesAnotherWidth) {
  const Likeness likeness = likeness_of(rows_of_model(0, 500, 1));
  expect_error(
      Code::bad_argument, [&] { (void)likeness.distances(Matrix(1, 5).view()); }, "5 values", "24");
}

TEST(CountByModel, FindsPlantedRows) {
  const std::vector<KnownModel> models{{"a", likeness_of(rows_of_model(0, 2000, 1))},
                                       {"b", likeness_of(rows_of_model(1, 2000, 2))}};
  Matrix mixed = rows_of_model(0, 1000, 3);
  const Matrix others = rows_of_model(1, 1000, 4), strangers = rows_of_model(2, 1000, 5);
  for (std::size_t r = 0; r < 1000; ++r) {
    if (r % 10 == 4) std::ranges::copy(others.row(r), mixed.row(r).begin());
    if (r % 10 == 7) std::ranges::copy(strangers.row(r), mixed.row(r).begin());
  }
  const ModelShares shares = count_by_model(space_of("mixed", mixed), models);
  EXPECT_EQ(shares.rows[0] + shares.rows[1] + shares.between + shares.unlike, 1000U);
  EXPECT_NEAR(static_cast<double>(shares.rows[0]), 800, 40);
  EXPECT_NEAR(static_cast<double>(shares.rows[1]), 100, 15);
  EXPECT_NEAR(static_cast<double>(shares.unlike), 100, 40);
  ASSERT_FALSE(shares.first_strange.empty());
  EXPECT_EQ(shares.first_strange.front(), 4);
}

TEST(CountByModel, RefusesModelsOfAnotherWidth) {
  const std::vector<KnownModel> models{{"a", likeness_of(rows_of_model(0, 500, 1))}};
  expect_error(
      Code::bad_argument, [&] { (void)count_by_model(space_of("x", Matrix(3, 5)), models); }, "'x' has 5",
      "'a' has 24");
}

}  // namespace
}  // namespace kedge
