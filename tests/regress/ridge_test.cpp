// SPDX-License-Identifier: Apache-2.0
#include "regress/ridge.h"
#include "support.h"

#include <cmath>

namespace kedge {
namespace {

using test::random_matrix;

Matrix64 as_double(const Matrix& x) {
  Matrix64 y(x.rows(), x.cols());
  std::ranges::copy(x.cells(), y.cells().begin());
  return y;
}

/// features M + noise, with `signal` of the features carrying everything.
struct Problem {
  explicit Problem(std::size_t rows, std::size_t dim = 6, float noise = 0.3F, unsigned seed = 1)
      : features(as_double(random_matrix(rows, dim, seed))), targets(rows, 2) {
    const Matrix error = random_matrix(rows, 2, seed + 1);
    for (std::size_t r = 0; r < rows; ++r) {
      targets.row(r)[0] = 2 * features.row(r)[0] - features.row(r)[1] + noise * error.row(r)[0];
      targets.row(r)[1] = error.row(r)[1];  // nothing to find
    }
  }
  Matrix64 features, targets;
};

double predict(const Matrix64& solution, std::span<const double> features, std::size_t output) {
  double sum = 0;
  for (std::size_t i = 0; i < features.size(); ++i) sum += features[i] * solution.row(i)[output];
  return sum;
}

double mean_eigenvalue(const Matrix64& features) {
  double sum = 0;
  for (const double value : features.cells()) sum += value * value;
  return sum / static_cast<double>(features.cells().size());
}

TEST(Ridge, SolvesThePenalisedNormalEquations) {
  const Problem p(40);
  const double rho = 0.2;
  const Matrix64 m = Ridge(p.features.view(), p.targets.view()).solve(rho);
  const double penalty = rho * mean_eigenvalue(p.features) * 40;
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t c = 0; c < 2; ++c) {
      double gradient = penalty * m.row(i)[c];
      for (std::size_t r = 0; r < 40; ++r) {
        gradient -= p.features.row(r)[i] * (p.targets.row(r)[c] - predict(m, p.features.row(r), c));
      }
      EXPECT_NEAR(gradient, 0, 1e-10);
    }
  }
}

TEST(Ridge, GeneralisedCrossValidationIsItsFormula) {
  const Problem p(25);
  const Ridge ridge(p.features.view(), p.targets.view());
  for (const double rho : {0.01, 1.0}) {
    const Matrix64 m = ridge.solve(rho);
    double residual = 0;
    for (std::size_t r = 0; r < 25; ++r) {
      for (std::size_t c = 0; c < 2; ++c) {
        residual += std::pow(p.targets.row(r)[c] - predict(m, p.features.row(r), c), 2) / 50;
      }
    }
    // The degrees of freedom are the trace of the hat matrix: what the prediction of each row owes to that row.
    double freedom = 0;
    for (std::size_t r = 0; r < 25; ++r) {
      Matrix64 one(25, 1);
      one.row(r)[0] = 1;
      freedom += predict(Ridge(p.features.view(), one.view()).solve(rho), p.features.row(r), 0);
    }
    EXPECT_NEAR(ridge.gcv(rho), residual / std::pow(1 - freedom / 25, 2), 1e-10);
  }
}

/// Rows of `from`, in this order.
Matrix64 picked(const Matrix64& from, const std::vector<std::size_t>& rows) {
  Matrix64 to(rows.size(), from.cols());
  for (std::size_t r = 0; r < rows.size(); ++r) std::ranges::copy(from.row(rows[r]), to.row(r).begin());
  return to;
}

/// The mean squared error at rows that are left out together with all that repeat them; `rows` are of the problem.
double error_without(const Problem& p, const std::vector<std::size_t>& rows, double rho) {
  const Matrix64 all = picked(p.features, rows);
  double error = 0;
  for (const std::size_t row : rows) {
    std::vector<std::size_t> others = rows;
    std::erase(others, row);
    const Matrix64 features = picked(p.features, others), targets = picked(p.targets, others);
    // The same penalty on the sum of squares.
    const double same = rho * mean_eigenvalue(all) * static_cast<double>(rows.size()) /
                        (mean_eigenvalue(features) * static_cast<double>(others.size()));
    const Matrix64 m = Ridge(features.view(), targets.view()).solve(same);
    for (std::size_t c = 0; c < 2; ++c) {
      error += std::pow(p.targets.row(row)[c] - predict(m, p.features.row(row), c), 2) / 2;
    }
  }
  return error / static_cast<double>(rows.size());
}

TEST(Ridge, CentringTakesADegreeOfFreedomOfRowsWithThatMean) {
  const std::vector<double> squares{1.0, 4.0};
  EXPECT_EQ(taken_by_centring(std::vector<double>{1e-9, -1e-8}, squares), 1);
  EXPECT_EQ(taken_by_centring(std::vector<double>{0.01, 0.0}, squares), 0);
}

TEST(Ridge, RowsThatAreThereTwiceAreLeftOutTogether) {
  const Problem p(50, 120);
  std::vector<std::size_t> once, twice, some;
  for (std::size_t r = 0; r < 50; ++r) {
    once.push_back(r);
    twice.insert(twice.end(), 2, r);
    some.insert(some.end(), r % 3 == 0 ? 3 : 1, r);
  }
  for (const std::vector<std::size_t>& rows : {once, twice, some}) {
    const Matrix64 features = picked(p.features, rows), targets = picked(p.targets, rows);
    const Ridge ridge(features.view(), targets.view());
    for (const double rho : {0.003, 0.1, 3.0}) {
      const double expected = error_without(p, rows, rho);
      // One leverage for all is less true of rows that are there more often than others.
      const double share = rows == some ? 0.35 : 0.15;
      EXPECT_NEAR(ridge.gcv(rho), expected, share * expected) << rows.size() << " rows, strength " << rho;
    }
  }
}

TEST(RepeatedRows, AreThoseWithTheSameTargetsToo) {
  const Matrix64 rows = picked(as_double(random_matrix(5, 3, 1)), {0, 1, 0, 2, 1, 0, 0, 3});
  Matrix64 targets = picked(as_double(random_matrix(5, 2, 2)), {0, 1, 0, 2, 1, 4, 4, 1});
  targets.row(2)[0] *= 1 + 1e-7;  // rounding
  const RepeatedRows repeated(rows.view());
  const std::vector<std::size_t> found = repeated.stand_ins(targets.view());
  const std::size_t alike[][2] = {{0, 2}, {1, 4}, {5, 6}}, apart[][2] = {{0, 1}, {0, 5}, {3, 7}, {1, 7}};
  for (const auto& [one, other] : alike) EXPECT_EQ(found[one], found[other]) << one << ", " << other;
  for (const auto& [one, other] : apart) EXPECT_NE(found[one], found[other]) << one << ", " << other;
  EXPECT_EQ(repeated.distinct(targets.view()), 5U);
}

TEST(Ridge, EstimatesTheErrorOnRowsItHasNotSeen) {
  const Problem seen(2000, 6, 0.5F, 3);
  const Problem unseen(2000, 6, 0.5F, 30);
  const Ridge ridge(seen.features.view(), seen.targets.view());
  const Matrix64 m = ridge.solve(0.01);
  double error = 0;
  double variance = 0;
  for (std::size_t r = 0; r < 2000; ++r) {
    error += std::pow(unseen.targets.row(r)[0] - predict(m, unseen.features.row(r), 0), 2);
    variance += std::pow(unseen.targets.row(r)[0], 2);
  }
  EXPECT_NEAR(ridge.r2(0.01)[0], 1 - error / variance, 0.02);
  EXPECT_NEAR(ridge.r2(0.01)[1], 0, 0.02);
}

TEST(Ridge, NoiseAsksForTheMostStrengthAndItsAbsenceForTheLeast) {
  const Problem clean(400, 20, 0.01F);
  EXPECT_EQ(Ridge(clean.features.view(), as_double(random_matrix(400, 1, 9)).view()).best(), Ridge::kStrengths.back());
  Matrix64 only(400, 1);
  for (std::size_t r = 0; r < 400; ++r) only.row(r)[0] = clean.targets.row(r)[0];
  EXPECT_EQ(Ridge(clean.features.view(), only.view()).best(), Ridge::kStrengths.front());
}

TEST(Ridge, FewerRowsThanFeaturesStaysFinite) {
  const Problem p(5, 12);
  const Ridge ridge(p.features.view(), p.targets.view());
  for (const double rho : {0.0, 0.003, 10.0}) {
    const Matrix64 m = ridge.solve(rho);
    for (const double value : m.cells()) EXPECT_TRUE(std::isfinite(value));
    for (const float value : ridge.r2(rho)) EXPECT_TRUE(value >= -1 && value <= 1);
  }
  EXPECT_TRUE(std::isinf(ridge.gcv(0)));  // it explains every row, so there is nothing to judge it by
}

}  // namespace
}  // namespace kedge
