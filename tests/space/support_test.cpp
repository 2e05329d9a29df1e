// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"
#include "compute/neighbors.h"
#include "support.h"

#include <algorithm>
#include <set>

namespace kedge {
namespace {

using test::expect_error;
using test::random_matrix;
using test::space_of;
using test::TemporaryFolder;

bool available(SupportSelect select) {
  return select != SupportSelect::kmeans || have_faiss();
}

class EverySelection : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    if (!available(select())) GTEST_SKIP() << "this build has no FAISS";
  }
  [[nodiscard]] SupportSelect select() const { return parse_support_select(GetParam()); }
};

TEST_P(EverySelection, GivesDifferentSortedRowsThatTheSeedDecides) {
  const Matrix rows = random_matrix(150, 6, 1);
  const std::vector<std::size_t> chosen = select_rows(select(), rows.view(), 40, 7);
  ASSERT_EQ(chosen.size(), 40U);
  EXPECT_TRUE(std::ranges::is_sorted(chosen));
  EXPECT_EQ(std::ranges::adjacent_find(chosen), chosen.end());
  EXPECT_LT(chosen.back(), 150U);
  EXPECT_EQ(select_rows(select(), rows.view(), 40, 7), chosen);
  EXPECT_NE(select_rows(select(), rows.view(), 40, 8), chosen);
}

TEST_P(EverySelection, CanTakeAllRowsAndWorksOnDuplicates) {
  Matrix same(12, 3);
  for (const float value : {0.0F, 2.0F}) {
    std::ranges::fill(same.cells(), value);
    EXPECT_EQ(select_rows(select(), same.view(), 12, 0).size(), 12U);
    const std::vector<std::size_t> some = select_rows(select(), same.view(), 5, 0);
    EXPECT_EQ(std::set(some.begin(), some.end()).size(), 5U);
  }
}

TEST_P(EverySelection, WantsOneToAllRows) {
  const Matrix rows = random_matrix(10, 3, 1);
  expect_error(
      Code::bad_argument, [&] { (void)select_rows(select(), rows.view(), 11, 0); }, "support of 11", "only 10 rows");
  expect_error(
      Code::bad_argument, [&] { (void)select_rows(select(), rows.view(), 0, 0); }, "0 rows", "1 or more");
}

INSTANTIATE_TEST_SUITE_P(All, EverySelection, ::testing::ValuesIn(support_select_names()),
                         [](const auto& each) { return std::string(each.param); });

TEST(SupportSelect, FarthestPointsAreTheCorners) {
  Matrix rows = random_matrix(100, 2, 2);
  for (float& value : rows.cells()) value *= 0.1F;
  const std::vector<std::size_t> corners{3, 31, 64, 90};
  for (std::size_t i = 0; i < 4; ++i) {
    rows.row(corners[i])[0] = i % 2 == 0 ? 10 : -10;
    rows.row(corners[i])[1] = i / 2 == 0 ? 10 : -10;
  }
  for (const std::uint64_t seed : {0U, 1U, 2U}) {  // the first row is any, all others are corners
    const std::vector<std::size_t> chosen = select_rows(SupportSelect::fps, rows.view(), 5, seed);
    EXPECT_TRUE(std::ranges::includes(chosen, corners)) << seed;
  }
}

TEST(SupportSelect, KmeansTakesOneRowNearTheMiddleOfEachCluster) {
  if (!have_faiss()) GTEST_SKIP() << "this build has no FAISS";
  Matrix rows = random_matrix(60, 2, 3);
  for (std::size_t i = 0; i < 60; ++i) {  // two groups far apart; rows 0 and 1 are in their middle
    const bool middle = i < 2;
    rows.row(i)[0] = (middle ? 0 : 0.1F * rows.row(i)[0]) + 50 * static_cast<float>(i % 2);
    rows.row(i)[1] = middle ? 0 : i / 2 % 2 == 0 ? 1.0F : -1.0F;
  }
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    EXPECT_THAT(select_rows(SupportSelect::kmeans, rows.view(), 2, seed), ::testing::ElementsAre(0, 1)) << seed;
  }
}

TEST(SupportSelect, LeverageDrawsAsOftenAsTheSquaredLengthSays) {
  Matrix rows(4, 1);  // squared lengths 0, 1, 4 and 9
  for (std::size_t i = 0; i < 4; ++i) rows.row(i)[0] = -static_cast<float>(i);
  std::array<int, 4> counts{};
  for (std::uint64_t seed = 0; seed < 7000; ++seed) {
    ++counts.at(select_rows(SupportSelect::leverage, rows.view(), 1, seed).front());
  }
  EXPECT_EQ(counts[0], 0);
  EXPECT_NEAR(counts[1], 500, 100);
  EXPECT_NEAR(counts[2], 2000, 200);
  EXPECT_NEAR(counts[3], 4500, 200);
  EXPECT_THAT(select_rows(SupportSelect::leverage, rows.view(), 3, 0), ::testing::ElementsAre(1, 2, 3));
}

TEST(SupportSelect, UnknownNamesListTheKnown) {
  expect_error(
      Code::bad_argument, [] { (void)parse_support_select("magic"); }, "'magic'", "random, fps, kmeans, leverage");
}

FitOptions options_with(SupportSelect select, Similarity similarity, const Method& method = ChosenRows{Choice::fps}) {
  FitOptions options;
  options.method = method;
  options.similarity = similarity;
  options.anchors = 10;
  options.support = 40;
  options.support_select = select;
  if (std::holds_alternative<Param>(method)) std::get<Param>(options.method).epochs = 2;
  return options;
}

class SelectionInFit : public ::testing::TestWithParam<std::tuple<std::string_view, std::string_view>> {
 protected:
  void SetUp() override {
    if (!available(select())) GTEST_SKIP() << "this build has no FAISS";
  }
  [[nodiscard]] SupportSelect select() const { return parse_support_select(std::get<0>(GetParam())); }
  [[nodiscard]] Similarity similarity() const { return parse_similarity(std::get<1>(GetParam())); }

  Matrix a_ = random_matrix(300, 8, 6);
  Matrix b_ = random_matrix(300, 5, 7);
  std::vector<Space> spaces_{Space("a", view_rows(a_.view(), "a"), {100, 250}),
                             Space("b", view_rows(b_.view(), "b"), {100, 250})};
};

TEST_P(SelectionInFit, GivesSortedRowsOfTheFile) {
  for (const Method& method : std::vector<Method>{Param{}, Consensus{}, ChosenRows{Choice::fps}}) {
    const FitOptions options = options_with(select(), similarity(), method);
    const Bundle bundle = fit(spaces_, options);
    EXPECT_EQ(bundle.made().support_select, select());
    ASSERT_EQ(bundle.anchors().support_ids.size(), 40U);
    EXPECT_TRUE(std::ranges::is_sorted(bundle.anchors().support_ids));
    EXPECT_EQ(std::ranges::adjacent_find(bundle.anchors().support_ids), bundle.anchors().support_ids.end());
    EXPECT_GE(bundle.anchors().support_ids.front(), 100);
    EXPECT_LT(bundle.anchors().support_ids.back(), 250);
    EXPECT_EQ(fit(spaces_, options).anchors().support_ids, bundle.anchors().support_ids);
  }
}

TEST_P(SelectionInFit, DefaultsToAllRowsWhereTheyAreFew) {
  FitOptions options = options_with(select(), similarity());
  options.support.reset();
  EXPECT_EQ(fit(spaces_, options).anchors().support_ids.size(), 150U);
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<std::string_view, std::string_view>>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::string(std::get<1>(info.param));
}
INSTANTIATE_TEST_SUITE_P(All, SelectionInFit,
                         ::testing::Combine(::testing::ValuesIn(support_select_names()),
                                            ::testing::ValuesIn(similarity_names())),
                         case_name);

TEST(SupportSelect, DefaultsToFiveThousandOfManyRows) {
  const Matrix x = random_matrix(5100, 2, 6);
  FitOptions options = options_with(SupportSelect::leverage, Similarity::wip);
  options.support.reset();
  EXPECT_EQ(fit(std::vector{space_of("x", x)}, options).anchors().support_ids.size(), FitOptions::kDefaultSupport);
}

TEST(SupportSelect, RandomRowsStayThoseOfTheSeed) {
  const Matrix x = random_matrix(300, 4, 6);
  FitOptions options = options_with(SupportSelect::random, Similarity::wip);
  options.seed = 5;
  std::vector<std::int64_t> expected;
  for (const std::size_t row : Random(5).sample(300, 40)) expected.push_back(static_cast<std::int64_t>(row));
  std::ranges::sort(expected);
  EXPECT_EQ(fit(std::vector{space_of("x", x)}, options).anchors().support_ids, expected);
}

TEST(SupportSelect, EverySpaceWeighsTheSameWhateverItsScaleOrDim) {
  // Each space has one row far away from all others; both must be among the first three farthest points.
  for (const Similarity similarity : {Similarity::wip, Similarity::inner, Similarity::euclidean}) {
    Matrix wide = random_matrix(200, 30, 1);
    Matrix narrow = random_matrix(200, 2, 2);
    for (float& value : wide.row(17)) value *= 40;
    for (float& value : narrow.cells()) value *= 1e-3F;
    narrow.row(120)[0] = 1;
    FitOptions options = options_with(SupportSelect::fps, similarity);
    options.support = 3;
    options.anchors = 1;
    const Bundle bundle = fit(std::vector{space_of("wide", wide), space_of("narrow", narrow)}, options);
    EXPECT_THAT(bundle.anchors().support_ids, ::testing::IsSupersetOf({17, 120})) << to_string(similarity);
  }
}

TEST(SupportSelect, TheBundleFileRemembersIt) {
  const TemporaryFolder folder;
  const Matrix x = random_matrix(200, 8, 6);
  const Bundle bundle = fit(std::vector{space_of("x", x)}, options_with(SupportSelect::leverage, Similarity::wip));
  save_bundle(bundle, folder.file("x.kedge"));
  EXPECT_EQ(load_bundle(folder.file("x.kedge")).made().support_select, SupportSelect::leverage);
}

TEST(SupportSelect, WhatCannotWorkIsRefusedBeforeAnyRowIsRead) {
  const Matrix x = random_matrix(50, 4, 6);
  const auto unread = [](const ProgressReport&) { FAIL() << "rows were read"; };
  const auto fit_with = [&](auto change) {
    return [&, change] {
      FitOptions options = options_with(SupportSelect::fps, Similarity::wip);
      change(options);
      (void)fit(std::vector{space_of("x", x)}, options, unread);
    };
  };
  expect_error(Code::bad_argument, fit_with([](FitOptions& o) {
                 o.support.reset();
                 o.support_ids = {1, 2, 3};
               }),
               "select the support by fps", "3 support ids", "one or the other");
  expect_error(Code::bad_argument, fit_with([](FitOptions& o) { o.support = 51; }), "support of 51", "only 50 rows");
  expect_error(Code::bad_argument, fit_with([](FitOptions& o) { o.anchors = 41; }), "41 anchors", "40 support rows");
}

}  // namespace
}  // namespace kedge
