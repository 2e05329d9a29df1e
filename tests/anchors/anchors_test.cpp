// SPDX-License-Identifier: Apache-2.0
#include "compute/neighbors.h"
#include "support.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace kedge {
namespace {

using test::expect_error;
using test::random_matrix;

/// Four tight groups of ten points, far apart.
Matrix four_groups() {
  Matrix points = random_matrix(40, 2, 1);
  for (std::size_t i = 0; i < 40; ++i) {
    points.row(i)[0] = 0.01F * points.row(i)[0] + 10 * static_cast<float>(i % 4);
    points.row(i)[1] *= 0.01F;
  }
  return points;
}

std::set<std::size_t> groups_of(std::span<const float> weights) {
  std::set<std::size_t> groups;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) groups.insert(i % 4);
  }
  return groups;
}

TEST(Anchors, KmeansAnchorsAreTheMeansOfTheirNearestRows) {
  if (!have_faiss()) GTEST_SKIP() << "this build has no FAISS";
  const Matrix points = four_groups();
  const Matrix mixture = choose_anchors(Choice::kmeans, points.view(), 4, 3);
  std::vector<std::array<float, 2>> anchors(4);
  for (std::size_t r = 0; r < 4; ++r) {
    const auto members = std::ranges::count_if(mixture.row(r), [](float weight) { return weight > 0; });
    EXPECT_THAT(mixture.row(r), ::testing::Each(::testing::AnyOf(0.0F, 1.0F / static_cast<float>(members))));
    for (std::size_t i = 0; i < 40; ++i) {
      for (std::size_t c = 0; c < 2; ++c) anchors[r].at(c) += mixture.row(r)[i] * points.row(i)[c];
    }
  }
  for (std::size_t i = 0; i < 40; ++i) {
    const auto distance = [&](const std::array<float, 2>& anchor) {
      return std::hypot(anchor[0] - points.row(i)[0], anchor[1] - points.row(i)[1]);
    };
    const auto nearest = std::ranges::min_element(anchors, {}, distance) - anchors.begin();
    EXPECT_GT(mixture.row(static_cast<std::size_t>(nearest))[i], 0) << i;
  }
}

TEST(Anchors, KmeansWithoutFaissSaysWhatIsMissing) {
  if (have_faiss()) GTEST_SKIP() << "this build has FAISS";
  const Matrix points = four_groups();
  expect_error(
      Code::failed, [&] { (void)choose_anchors(Choice::kmeans, points.view(), 4, 3); }, "needs FAISS", "libfaiss-dev");
}

TEST(Anchors, FarthestPointsVisitEveryGroupFirst) {
  const Matrix points = four_groups();
  const Matrix mixture = choose_anchors(Choice::fps, points.view(), 4, 3);
  std::set<std::size_t> seen;
  for (std::size_t r = 0; r < 4; ++r) seen.merge(groups_of(mixture.row(r)));
  EXPECT_EQ(seen.size(), 4U);
}

class EveryMethod : public ::testing::TestWithParam<std::string_view> {};

TEST_P(EveryMethod, WorksOnDuplicatesAndUpToAsManyAnchorsAsRows) {
  const Choice by = std::get<ChosenRows>(parse_method(GetParam())).by;
  if (by == Choice::kmeans && !have_faiss()) GTEST_SKIP() << "this build has no FAISS";
  Matrix same(12, 3);
  for (float& value : same.cells()) value = 2;
  const Matrix mixture = choose_anchors(by, same.view(), 12, 0);
  for (std::size_t r = 0; r < 12; ++r) {
    double sum = 0;
    for (const float weight : mixture.row(r)) sum += weight;
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST_P(EveryMethod, AnotherSeedGivesOtherAnchors) {
  const Choice by = std::get<ChosenRows>(parse_method(GetParam())).by;
  if (by == Choice::kmeans && !have_faiss()) GTEST_SKIP() << "this build has no FAISS";
  const Matrix points = random_matrix(200, 5, 9);
  const Matrix first = choose_anchors(by, points.view(), 10, 1);
  const Matrix second = choose_anchors(by, points.view(), 10, 2);
  EXPECT_FALSE(std::ranges::equal(first.cells(), second.cells()));
}

INSTANTIATE_TEST_SUITE_P(All, EveryMethod, ::testing::Values("random", "kmeans", "fps"),
                         [](const auto& each) { return std::string(each.param); });

TEST(Anchors, RandomAndFarthestAreSingleDifferentRows) {
  const Matrix points = random_matrix(50, 5, 9);
  for (const Choice by : {Choice::random, Choice::fps}) {
    const Matrix mixture = choose_anchors(by, points.view(), 50, 4);
    std::set<std::size_t> used;
    for (std::size_t r = 0; r < 50; ++r) {
      EXPECT_EQ(std::ranges::count(mixture.row(r), 1.0F), 1);
      used.insert(static_cast<std::size_t>(std::ranges::find(mixture.row(r), 1.0F) - mixture.row(r).begin()));
    }
    EXPECT_EQ(used.size(), 50U);
  }
}

TEST(Anchors, UnknownNamesListTheKnown) {
  expect_error(
      Code::bad_argument, [] { (void)parse_method("magic"); }, "unknown method 'magic'",
      "param, consensus, random, kmeans, fps");
  expect_error(
      Code::bad_argument, [] { (void)parse_similarity("dot"); }, "unknown similarity 'dot'",
      "wip, cosine, euclidean, inner");
}

}  // namespace
}  // namespace kedge
