// SPDX-License-Identifier: Apache-2.0
#include "regress/kernel_problem.h"

namespace kedge {
namespace {

using test::all_finite;
using test::as_rows;
using test::by_hand;
using test::expect_near;
using test::Plain;
using test::Problem;
using test::random_matrix;
using test::Rows;
using test::values_at;

TEST(KernelRidge, RowsThatRepeatAreOneRowThatWeighsMore) {
  Problem once(30, 4, 2);
  Matrix twice(60, 4);
  Rows wanted(60, 2);
  for (std::size_t r = 0; r < 60; ++r) {
    std::ranges::copy(once.stored.row(r % 30), twice.row(r).begin());
    wanted.row(static_cast<Eigen::Index>(r)) = once.targets.row(static_cast<Eigen::Index>(r % 30));
  }
  const Problem again(twice, wanted);
  for (const double strength : {1e-9, 1e-8, 1e-2}) {
    const KernelRegression one = once.regress(by_hand(2, strength, 0)), two = again.regress(by_hand(2, strength, 0));
    ASSERT_TRUE(all_finite(two)) << strength;
    const Rows f = as_rows(one.kernel.rows);
    // Half the penalty for each of two rows is the same penalty.
    if (strength < 5e-9) continue;
    const double share = strength > 1e-5 ? 1e-5 : 1e-2;
    expect_near(values_at(two, f), values_at(one, f), share);
    EXPECT_NEAR(two.fit.error, one.fit.error, share * one.fit.error) << "a row is left out with the same one";
  }
  const KernelFit chosen = again.regress().fit, alone = once.regress().fit;
  EXPECT_EQ(chosen.width, alone.width);
  EXPECT_EQ(chosen.strength, alone.strength);
  EXPECT_EQ(chosen.whitening, alone.whitening);
  EXPECT_NEAR(chosen.mean_r2, alone.mean_r2, 1e-4);
}

TEST(KernelRidge, ItsErrorIsThatOfLeavingARowOutWithAllThatAreTheSame) {
  const Problem distinct(12, 4, 2);
  std::vector<Eigen::Index> rows;
  for (Eigen::Index r = 0; r < 12; ++r) rows.insert(rows.end(), static_cast<std::size_t>(1 + r % 3), r);
  Matrix repeated(rows.size(), 4);
  Rows wanted(static_cast<Eigen::Index>(rows.size()), 2);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::ranges::copy(distinct.stored.row(static_cast<std::size_t>(rows[r])), repeated.row(r).begin());
    wanted.row(static_cast<Eigen::Index>(r)) = distinct.targets.row(rows[r]);
  }
  const Problem p(std::move(repeated), std::move(wanted));
  const double width = 2, ridge = 1e-2 * static_cast<double>(rows.size());
  const KernelRegression found = p.regress(by_hand(width, 1e-2, 0.25));
  const Rows s = as_rows(found.kernel.rows);
  const Eigen::RowVectorXd mean = p.targets.colwise().mean();
  double error = 0, square = 0;
  for (Eigen::Index out = 0; out < 12; ++out) {
    std::vector<Eigen::Index> kept;
    Eigen::Index own = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (rows[r] == out) own = static_cast<Eigen::Index>(r);
      if (rows[r] != out) kept.push_back(static_cast<Eigen::Index>(r));
    }
    const Plain without(s(kept, Eigen::all), p.targets(kept, Eigen::all), width, ridge, mean);
    error += (p.targets.row(own) - without.at(s.row(own))).squaredNorm();
    square += (p.targets.row(own) - mean).squaredNorm();
  }
  EXPECT_NEAR(found.fit.error, error / square, 1e-6 * found.fit.error);
}

TEST(KernelRidge, TheLeastStrengthIsEnoughForRowsThatAreAllAlike) {
  for (const std::size_t count : {20U, 200U}) {
    for (const std::size_t apart : {count, std::size_t{2}}) {  // the rest repeat the first
      Matrix rows = random_matrix(count, 3, 1);
      for (std::size_t r = apart; r < count; ++r) std::ranges::copy(rows.row(0), rows.row(r).begin());
      const Problem problem(std::move(rows), as_rows(random_matrix(count, 2, 2)));
      for (const double width : {kLeastWidth, 0.125, 2.0, kMostWidth}) {
        EXPECT_TRUE(all_finite(problem.regress(by_hand(width, kLeastStrength, 0)))) << count << ", " << width;
      }
    }
  }
}

}  // namespace
}  // namespace kedge
