// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kedge {
namespace {

using test::expect_error;
using test::random_matrix;
using test::space_of;

Matrix64 block_of(const Matrix& matrix, std::size_t first, std::size_t rows) {
  Matrix64 block(rows, matrix.cols());
  for (std::size_t r = 0; r < rows; ++r) std::ranges::copy(matrix.row(first + r), block.row(r).begin());
  return block;
}

/// The most by which the means of this many values of about 1 can differ, if they are added up in different orders.
double rounding_of(std::size_t rows) {
  return 2 * static_cast<double>(rows + 10) * std::numeric_limits<double>::epsilon();
}

TEST(MomentSums, PartsMergedInAnyGroupingGiveTheWhole) {
  Matrix x = random_matrix(500, 7, 1);
  for (std::size_t r = 0; r < x.rows(); ++r) x.row(r)[2] += 1000;  // far from the origin
  MomentSums whole(7);
  Matrix64 all = block_of(x, 0, 500);
  whole.add(all.view());
  MomentSums left(7);
  MomentSums right(7);
  for (const auto& [first, rows, sums] :
       {std::tuple{0, 1, &left}, {1, 199, &left}, {200, 30, &right}, {230, 270, &right}}) {
    Matrix64 block = block_of(x, static_cast<std::size_t>(first), static_cast<std::size_t>(rows));
    sums->add(block.view());
  }
  MomentSums merged(7);
  merged.merge(right);
  merged.merge(left);
  const Moments a = std::move(whole).moments();
  const Moments b = std::move(merged).moments();
  EXPECT_EQ(a.rows, b.rows);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_NEAR(a.mean[i], b.mean[i], 1e-12 * std::abs(a.mean[i]) + 1e-14);
  for (std::size_t i = 0; i < 49; ++i) EXPECT_NEAR(a.covariance.cells()[i], b.covariance.cells()[i], 1e-11);
}

TEST(MomentSums, PartsOfJointMomentsAreThoseOfEachSpace) {
  const Matrix x = random_matrix(300, 5, 3);
  const Matrix y = random_matrix(300, 3, 4);
  const std::vector spaces{space_of("x", x), space_of("y", y)};
  const Moments joint = compute_joint_moments(spaces);
  ASSERT_EQ(joint.mean.size(), 8U);
  const Moments alone = compute_moments(spaces[1]);
  const Moments part = moments_of(joint, 5, 3);
  EXPECT_EQ(part.rows, 300U);
  const double rounding = rounding_of(300);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(part.mean[i], alone.mean[i], rounding);
  for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(part.covariance.cells()[i], alone.covariance.cells()[i], rounding);
  double between = 0;  // of x's column 1 and y's column 2
  for (std::size_t r = 0; r < 300; ++r) {
    between += (x.row(r)[1] - joint.mean[1]) * (y.row(r)[2] - joint.mean[7]) / 300;
  }
  EXPECT_NEAR(joint.covariance.row(1)[7], between, 1e-13);
  EXPECT_EQ(joint.covariance.row(1)[7], joint.covariance.row(7)[1]);
}

TEST(MomentSums, EqualsThePlainLoop) {
  const Matrix x = random_matrix(37, 4, 2);
  const Moments moments = compute_moments(space_of("x", x));
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      double mean_i = 0;
      double mean_j = 0;
      double product = 0;
      for (std::size_t r = 0; r < 37; ++r) {
        mean_i += x.row(r)[i] / 37.0;
        mean_j += x.row(r)[j] / 37.0;
      }
      for (std::size_t r = 0; r < 37; ++r) product += (x.row(r)[i] - mean_i) * (x.row(r)[j] - mean_j) / 37.0;
      EXPECT_NEAR(moments.covariance.row(i)[j], product, 1e-13);
    }
  }
}

TEST(MomentSums, DoNotDependOnHowManyThreadsThereAre) {
  const unsigned before = threads();
  for (const std::size_t rows : {2UL, 512UL, 513UL, 5000UL, 40'000UL}) {
    const Matrix x = random_matrix(rows, 7, 5);
    set_threads(1);
    const Moments alone = compute_joint_moments(std::vector{space_of("a", x), space_of("b", x)});
    set_threads(5);
    const Moments shared = compute_joint_moments(std::vector{space_of("a", x), space_of("b", x)});
    set_threads(before);
    EXPECT_EQ(alone.rows, rows);
    EXPECT_EQ(alone.mean, shared.mean) << rows;
    EXPECT_TRUE(std::ranges::equal(alone.covariance.cells(), shared.covariance.cells())) << rows;
    Matrix64 all(rows, 7);
    std::ranges::copy(x.cells(), all.cells().begin());
    MomentSums at_once(7);
    at_once.add(all.view());
    const Moments expected = std::move(at_once).moments();
    for (std::size_t i = 0; i < 7; ++i) {
      EXPECT_NEAR(alone.mean[i], expected.mean[i], rounding_of(rows)) << rows;
      for (std::size_t j = 0; j < 7; ++j) {
        EXPECT_NEAR(alone.covariance.row(i)[j + 7], expected.covariance.row(i)[j], rounding_of(rows)) << rows;
      }
    }
  }
}

TEST(Whitening, MakesTheCovarianceTheIdentity) {
  Matrix x = random_matrix(800, 6, 3);
  for (std::size_t r = 0; r < x.rows(); ++r) {
    x.row(r)[1] = 50 * x.row(r)[1] + x.row(r)[0];
    x.row(r)[5] = 0.01F * x.row(r)[5] + 9;
  }
  const Moments moments = compute_moments(space_of("x", x));
  Matrix64 white = block_of(x, 0, 800);
  whiten(make_whitening(moments, {0, 0}), white.view());
  MomentSums sums(6);
  sums.add(white.view());
  const Moments result = std::move(sums).moments();
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = 0; j < 6; ++j) EXPECT_NEAR(result.covariance.row(i)[j], i == j ? 1 : 0, 1e-8);
  }
}

TEST(Whitening, ShrinkageTakesRankDeficientAndConstantColumns) {
  Matrix x = random_matrix(20, 30, 4);  // fewer rows than columns
  for (std::size_t r = 0; r < x.rows(); ++r) {
    x.row(r)[3] = 4;            // never varies
    x.row(r)[7] = x.row(r)[8];  // twice the same
  }
  const Moments moments = compute_moments(space_of("x", x));
  const Whitening whitening = make_whitening(moments, {});
  for (const double value : whitening.whitener.cells()) EXPECT_TRUE(std::isfinite(value));
  const Whitening barely = make_whitening(moments, {0, 5e-8});
  for (const double value : barely.whitener.cells()) EXPECT_TRUE(std::isfinite(value));
  expect_error(
      Code::bad_argument,
      [&] {
        (void)make_whitening(moments, {0, 0});
      },
      "singular", "raise the shrinkage");
}

TEST(Whitening, RefusesOptionsOutOfRange) {
  const Matrix x = random_matrix(20, 3, 4);
  const Moments moments = compute_moments(space_of("x", x));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_error(
      Code::bad_argument,
      [&] {
        (void)make_whitening(moments, {-0.1, 0});
      },
      "shrinkage is -0.1", "0 to 1");
  expect_error(
      Code::bad_argument,
      [&] {
        (void)make_whitening(moments, {nan, 0});
      },
      "shrinkage is nan");
  expect_error(
      Code::bad_argument,
      [&] {
        (void)make_whitening(moments, {0.1, -1});
      },
      "epsilon is -1");
}

TEST(Whitening, RefusesASpaceThatNeverVaries) {
  for (const std::size_t rows : {10U, 200U, 5000U}) {  // sums of many equal values round
    Matrix x(rows, 3);
    for (float& value : x.cells()) value = 0.1F;
    expect_error(
        Code::bad_file, [&] { (void)compute_moments(space_of("flat", x)); }, "'flat'", "all the same");
  }
}

}  // namespace
}  // namespace kedge
