// SPDX-License-Identifier: Apache-2.0
#include "space/sum_rows.h"
#include "support.h"

#include <gtest/gtest.h>
#include <kedge/device.h>
#include <kedge/error.h>
#include <kedge/moments.h>
#include <kedge/whitening.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>

namespace kedge::test {
namespace {

Matrix64 block_of(const Matrix& matrix, std::size_t first, std::size_t rows) {
  Matrix64 block(rows, matrix.cols());
  for (std::size_t r = 0; r < rows; ++r) std::ranges::copy(matrix.row(first + r), block.row(r).begin());
  return block;
}

double largest_of(std::span<const double> values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

/// All sums, relative to the largest of their kind.
void expect_near(const Moments& found, const Moments& expected, double relative) {
  EXPECT_EQ(found.rows(), expected.rows());
  EXPECT_EQ(found.parts(), expected.parts());
  const auto compare = [&](std::span<const double> a, std::span<const double> b, const char* what, double size = 0) {
    ASSERT_EQ(a.size(), b.size()) << what;
    size = std::max(size, largest_of(b));
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], relative * size) << what << i;
  };
  compare(found.mean(), expected.mean(), "mean");
  compare(found.covariance().cells(), expected.covariance().cells(), "covariance");
  compare(found.third(), expected.third(), "third", largest_of(expected.fourth()));  // as skews may cancel
  compare(found.fourth(), expected.fourth(), "fourth");
}

/// The most by which the means of this many values of about 1 can differ, if they are added up in different orders.
double rounding_of(std::size_t rows) {
  return 2 * static_cast<double>(rows + 10) * std::numeric_limits<double>::epsilon();
}

TEST(Moments, PartsMergedInAnyGroupingGiveTheWhole) {
  Matrix x = random_matrix(500, 7, 1);
  for (std::size_t r = 0; r < x.rows(); ++r) x.row(r)[2] += 1000;  // far from the origin
  const Moments none({{"x", 7}});
  Moments whole = none;
  Matrix64 all = block_of(x, 0, 500);
  add_and_overwrite(whole, all.view());
  Moments left = none;
  Moments right = none;
  for (const auto& [first, rows, sums] :
       {std::tuple{0, 1, &left}, {1, 199, &left}, {200, 30, &right}, {230, 270, &right}}) {
    Matrix64 block = block_of(x, static_cast<std::size_t>(first), static_cast<std::size_t>(rows));
    add_and_overwrite(*sums, block.view());
  }
  Moments merged;
  merged.merge(right);
  merged.merge(left);
  expect_near(merged, whole, 1e-12);
}

TEST(Moments, PartsOfJointMomentsAreThoseOfEachSpace) {
  const Matrix x = random_matrix(300, 5, 3);
  const Matrix y = random_matrix(300, 3, 4);
  const std::vector spaces{space_of("x", x), space_of("y", y)};
  const Moments joint = compute_joint_moments(spaces);
  ASSERT_EQ(joint.dim(), 8U);
  const Moments alone = compute_moments(spaces[1]);
  const Moments part = joint.of("y");
  EXPECT_EQ(part.rows(), 300U);
  const double rounding = rounding_of(300);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(part.mean()[i], alone.mean()[i], rounding);
  for (std::size_t i = 0; i < 9; ++i)
    EXPECT_NEAR(part.covariance().cells()[i], alone.covariance().cells()[i], rounding);
  const Matrix64 covariance = joint.covariance();
  double between = 0;  // of x's column 1 and y's column 2
  for (std::size_t r = 0; r < 300; ++r) {
    between += (x.row(r)[1] - joint.mean()[1]) * (y.row(r)[2] - joint.mean()[7]) / 300;
  }
  EXPECT_NEAR(covariance.row(1)[7], between, 1e-13);
  EXPECT_EQ(covariance.row(1)[7], covariance.row(7)[1]);
}

TEST(Moments, EqualsThePlainLoop) {
  const Matrix x = random_matrix(37, 4, 2);
  const Matrix64 covariance = compute_moments(space_of("x", x)).covariance();
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
      EXPECT_NEAR(covariance.row(i)[j], product, 1e-13);
    }
  }
}

TEST(Moments, DoNotDependOnHowManyThreadsThereAre) {
  const unsigned before = threads();
  for (const std::size_t rows : {2UL, 512UL, 513UL, 5000UL, 40'000UL}) {
    const Matrix x = random_matrix(rows, 7, 5);
    set_threads(1);
    const Moments alone = compute_joint_moments(std::vector{space_of("a", x), space_of("b", x)});
    set_threads(5);
    const Moments shared = compute_joint_moments(std::vector{space_of("a", x), space_of("b", x)});
    set_threads(before);
    EXPECT_EQ(alone.rows(), rows);
    EXPECT_TRUE(std::ranges::equal(alone.mean(), shared.mean())) << rows;
    EXPECT_TRUE(std::ranges::equal(alone.scatter().cells(), shared.scatter().cells())) << rows;
    Matrix64 all(rows, 7);
    std::ranges::copy(x.cells(), all.cells().begin());
    Moments expected({{"x", 7}});
    add_and_overwrite(expected, all.view());
    const Matrix64 found = alone.covariance(), wanted = expected.covariance();
    for (std::size_t i = 0; i < 7; ++i) {
      EXPECT_NEAR(alone.mean()[i], expected.mean()[i], rounding_of(rows)) << rows;
      for (std::size_t j = 0; j < 7; ++j) {
        EXPECT_NEAR(found.row(i)[j + 7], wanted.row(i)[j], rounding_of(rows)) << rows;
      }
    }
  }
}

std::vector<Matrix> three_spaces(std::size_t rows) {
  std::vector<Matrix> spaces{random_matrix(rows, 5, 1), random_matrix(rows, 9, 2), random_matrix(rows, 3, 3)};
  for (std::size_t r = 0; r < rows; ++r) {
    for (float& value : spaces[1].row(r)) value = 40 + value * value;  // off centre and skewed
    spaces[2].row(r)[0] += spaces[0].row(r)[0];
  }
  return spaces;
}

std::vector<MatrixView<const float>> rows_of(const std::vector<Matrix>& spaces, std::size_t first, std::size_t count) {
  std::vector<MatrixView<const float>> views;
  for (const Matrix& space : spaces) views.push_back(space.view().middle_rows(first, count));
  return views;
}

Moments moments_of_three() {
  return Moments({{"a", 5}, {"b", 9}, {"c", 3}});
}

TEST(Moments, ShardsInAnyOrderAreTheWhole) {
  const std::vector<Matrix> spaces = three_spaces(2000);
  Moments whole = moments_of_three();
  whole.add(rows_of(spaces, 0, 2000));
  std::vector<Moments> shards;
  std::size_t first = 0;
  for (const std::size_t rows : {1UL, 700UL, 3UL, 96UL, 1000UL, 199UL, 1UL}) {
    Moments& shard = shards.emplace_back(moments_of_three());
    shard.add(rows_of(spaces, first, rows / 2));
    shard.add(rows_of(spaces, first + rows / 2, rows - rows / 2));
    first += rows;
  }
  ASSERT_EQ(first, 2000U);
  std::mt19937 random(1);
  for (int again = 0; again < 5; ++again) {
    std::ranges::shuffle(shards, random);
    Moments merged;
    for (const Moments& shard : shards) merged.merge(shard);
    expect_near(merged, whole, 1e-12);
  }
}

TEST(Moments, FourthSumsEqualThePlainLoop) {
  const std::vector<Matrix> spaces = three_spaces(700);
  Moments moments = moments_of_three();
  for (std::size_t first = 0; first < 700; first += 100) moments.add(rows_of(spaces, first, 100));
  std::size_t column = 0;
  for (std::size_t s = 0; s < 3; ++s) {
    const std::size_t dim = spaces[s].cols();
    std::vector<double> third(dim);
    double fourth = 0;
    for (std::size_t r = 0; r < 700; ++r) {
      double squares = 0;
      for (std::size_t i = 0; i < dim; ++i) squares += std::pow(spaces[s].row(r)[i] - moments.mean()[column + i], 2);
      for (std::size_t i = 0; i < dim; ++i) third[i] += squares * (spaces[s].row(r)[i] - moments.mean()[column + i]);
      fourth += squares * squares;
    }
    EXPECT_NEAR(moments.fourth()[s], fourth, 1e-12 * fourth);
    for (std::size_t i = 0; i < dim; ++i) {
      EXPECT_NEAR(moments.third()[column + i], third[i], 1e-11 * std::max(1.0, largest_of(third))) << s << i;
    }
    column += dim;
  }
}

TEST(Moments, OfSomeSpacesInAnotherOrder) {
  const std::vector<Matrix> spaces = three_spaces(300);
  Moments all = moments_of_three();
  all.add(rows_of(spaces, 0, 300));
  Moments expected({{"c", 3}, {"a", 5}});
  const std::vector<MatrixView<const float>> turned{spaces[2].view(), spaces[0].view()};
  expected.add(turned);
  const std::vector<std::string> names{"c", "a"};
  expect_near(all.of(names), expected, 1e-12);
  expect_error(
      Code::bad_argument, [&] { (void)all.of("d"); }, "no space 'd'", "a, b, c");
}

TEST(Moments, RefuseRowsThatDoNotFit) {
  std::vector<Matrix> spaces = three_spaces(20);
  Moments moments = moments_of_three();
  const auto add = [&](const std::vector<MatrixView<const float>>& rows) {
    return [&moments, rows] { moments.add(rows); };
  };
  expect_error(Code::bad_argument, add({spaces[0].view()}), "rows of 1 space(s)");
  expect_error(Code::bad_argument, add({spaces[1].view(), spaces[0].view(), spaces[2].view()}), "'a'", "5 values",
               "found 9");
  expect_error(Code::bad_argument, add({spaces[0].view(), spaces[1].view().middle_rows(0, 19), spaces[2].view()}),
               "'b' has 19");
  spaces[1].row(7)[2] = std::numeric_limits<float>::quiet_NaN();
  expect_error(Code::bad_argument, add(rows_of(spaces, 0, 20)), "'b'", "row 7", "NaN");
  EXPECT_EQ(moments.rows(), 0U) << "what is refused leaves nothing behind";
  Matrix64 narrow(3, 4);
  expect_error(
      Code::bad_argument, [&] { add_and_overwrite(moments, narrow.view()); }, "17 values in all", "found rows of 4");
  expect_error(
      Code::bad_argument,
      [&] {
        moments.merge(Moments({{"a", 5}, {"c", 3}, {"b", 9}}));
      },
      "same order");
  expect_error(
      Code::bad_argument,
      [] {
        (void)Moments({{"a", 5}, {"a", 3}});
      },
      "two spaces are called 'a'");
  expect_error(
      Code::bad_argument, [&] { (void)moments.covariance(); }, "at least one row");
}

TEST(Moments, SurviveTheFile) {
  const std::vector<Matrix> spaces = three_spaces(100);
  Moments moments = moments_of_three();
  moments.add(rows_of(spaces, 0, 100));
  const TemporaryFolder folder;
  save_moments(moments, folder.file("a.moments"));
  expect_near(load_moments(folder.file("a.moments")), moments, 0);
  expect_near(moments_from_bytes(moments_to_bytes(moments), "bytes"), moments, 0);
  save_moments(moments, folder.file("a.moments"));  // its own kind may be replaced
  write_file(folder.file("other"), "something else");
  expect_error(
      Code::bad_argument, [&] { save_moments(moments, folder.file("other")); }, "not moments of kedge");
}

TEST(Moments, HostileFilesAreRefused) {
  const std::vector<Matrix> spaces = three_spaces(100);
  Moments moments = moments_of_three();
  moments.add(rows_of(spaces, 0, 100));
  const std::string good = moments_to_bytes(moments);
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string bytes = good;
    const auto at = bytes.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return bytes.replace(at, from.size(), to);
  };
  const auto expect_bad = [](const std::string& bytes, const std::string& words) {
    expect_error(
        Code::bad_file, [&] { (void)moments_from_bytes(bytes, "x.moments"); }, "x.moments", words);
  };
  expect_bad(good.substr(0, good.size() - 8), "");
  expect_bad(replaced("kedge moments", "kedge momentz"), "not moments of kedge");
  expect_bad(replaced(R"(\"dim\":5)", R"(\"dim\":6)"), "more than the 17 values");
  expect_bad(replaced(R"("rows":"100")", R"("rows":"-00")"), "");
  std::string nan = good;
  std::fill_n(nan.end() - 8, 8, '\xff');
  expect_bad(nan, "NaN");
  Moments impossible({{"a", 2}}, 10, {0, 0}, Matrix64(2, 2), {}, {});
  expect_near(moments_from_bytes(moments_to_bytes(impossible), "zeros"), impossible, 0);
  Matrix64 scatter(2, 2);
  scatter.row(0)[0] = scatter.row(1)[1] = 1;
  scatter.row(1)[0] = 2;
  impossible = Moments({{"a", 2}}, 10, {0, 0}, scatter, {}, {});
  expect_bad(moments_to_bytes(impossible), "cannot be one of real rows");
}

TEST(Moments, WidthsThatWrapAreRefused) {
  constexpr std::size_t kHalf = std::size_t{1} << 63;
  expect_error(
      Code::bad_argument,
      [] {
        (void)Moments({{"a", kHalf}, {"b", kHalf}, {"c", 2}});
      },
      "more than moments can hold");
}

TEST(Moments, SumsThatAreNoNumbersAreNotWritten) {
  Matrix64 large(4, 2);
  for (std::size_t r = 0; r < 4; ++r) large.row(r)[r % 2] = 1e200;
  Moments moments({{"a", 2}});
  add_and_overwrite(moments, large.view());
  expect_error(
      Code::bad_file, [&] { (void)moments_to_bytes(moments); }, "too large to be added up");
}

TEST(Moments, LedoitWolfNeedsItsSums) {
  const Matrix x = random_matrix(200, 6, 1);
  const Moments moments = compute_moments(space_of("x", x));
  const Moments without({{"x", 6}}, moments.rows(), {moments.mean().begin(), moments.mean().end()}, moments.scatter(),
                        {}, {});
  EXPECT_GT(choose_shrinkage(ShrinkageRule::ledoit_wolf, moments), 0);
  EXPECT_EQ(choose_shrinkage(ShrinkageRule::oas, without), choose_shrinkage(ShrinkageRule::oas, moments));
  expect_error(
      Code::bad_argument, [&] { (void)choose_shrinkage(ShrinkageRule::ledoit_wolf, without); }, "'x'", "Ledoit-Wolf",
      "oas");
  Moments merged = moments;
  merged.merge(without);
  EXPECT_TRUE(merged.fourth().empty());
}

}  // namespace
}  // namespace kedge::test
