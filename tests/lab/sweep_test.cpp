// SPDX-License-Identifier: Apache-2.0
#include "options/every_option_list.h"
#include "stitch/stitch_plan.h"

#include <gtest/gtest.h>
#include <kedge/lab.h>

#include <string>
#include <utility>
#include <vector>

namespace kedge::test {

INSTANTIATE_TYPED_TEST_SUITE_P(Lab, EveryList, HeadOptions);

namespace {

TEST(SweepPoints, AreAllCombinations) {
  FitArguments fit;
  fit.seed = 3;
  const std::vector<FitArguments> points = sweep_points(fit, {5, 6}, {}, {"0.5", "oas", "0.25"});
  ASSERT_EQ(points.size(), 6U);
  EXPECT_EQ(points[3].anchors, 6U);
  EXPECT_EQ(points[3].support, fit.support);
  EXPECT_EQ(points[3].seed, 3U);
  EXPECT_EQ(points[4].shrinkage_rule, ShrinkageRule::oas);
  EXPECT_EQ(points[4].whitening.shrinkage, fit.whitening.shrinkage) << "no trace of the point before";
  EXPECT_EQ(points[5].whitening.shrinkage, 0.25);
  EXPECT_EQ(points[5].shrinkage_rule, ShrinkageRule::fixed);
  EXPECT_EQ(sweep_points(fit, {}, {}, {}).size(), 1U);
  EXPECT_THROW((void)sweep_points(fit, {}, {}, {"much"}), Error);
}

TEST(SweepPoints, ShareTheSupportThatOneMethodByKernelWants) {
  constexpr std::size_t kRows = 20000;
  const auto support = [](const std::vector<std::string>& methods, Effort effort, std::size_t asked, std::size_t rows) {
    StitchOptions options;
    options.methods = parse_stitch_methods(methods);
    FitArguments& point = options.points.front();
    point.effort = effort;
    if (asked > 0) point.support = asked;
    const StitchOptions settled = with_defaults(options, rows);
    for (const StitchMethod& method : settled.methods) {
      EXPECT_EQ(fit_options_of(method, settled.points.front(), 0, rows).support, settled.points.front().support);
    }
    return point_of(settled.points.front(), rows).support;
  };
  EXPECT_EQ(support({"consensus", "random-cosine"}, Effort::fast, 0, kRows), FitOptions::kDefaultSupport);
  EXPECT_EQ(support({"consensus", "param-kernel"}, Effort::fast, 0, kRows), FitOptions::kKernelSupport);
  EXPECT_EQ(support({"consensus", "random-cosine"}, Effort::best, 0, kRows), FitOptions::kKernelSupport);
  EXPECT_EQ(support({"absolute", "random-cosine", "consensus-ridge"}, Effort::best, 0, kRows),
            FitOptions::kDefaultSupport);
  EXPECT_EQ(support({"consensus-kernel"}, Effort::fast, 0, 7000), 7000U);
  EXPECT_EQ(support({"consensus-kernel"}, Effort::fast, 300, kRows), 300U);
}

TEST(SweepPoints, AreLeftOutWhereTheyCannotBeUnlessAllAreSuch) {
  const auto numbers = [](const std::vector<FitArguments>& points) {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (const FitArguments& point : points) pairs.emplace_back(point.anchors.value_or(0), point.support.value_or(0));
    return pairs;
  };
  using Numbers = std::vector<std::pair<std::size_t, std::size_t>>;
  std::vector<FitArguments> points = sweep_points({}, {10, 20, 40}, {20, 0}, {});
  EXPECT_EQ(numbers(leave_out_impossible(points, 30)), (Numbers{{40, 20}, {40, 30}}));
  EXPECT_EQ(numbers(points), (Numbers{{10, 20}, {10, 0}, {20, 20}, {20, 0}}));
  EXPECT_TRUE(leave_out_impossible(points, 30).empty());
  EXPECT_EQ(points.size(), 4U);
  EXPECT_TRUE(leave_out_impossible(points = sweep_points({}, {40, 50}, {20}, {}), 30).empty());
  EXPECT_EQ(points.size(), 2U) << "so that it is refused";

  FitArguments given;
  given.support_ids = {3, 1, 2};
  points = sweep_points(given, {3, 4}, {}, {});
  EXPECT_EQ(numbers(leave_out_impossible(points, 30)), (Numbers{{4, 3}})) << "as many as there are ids";
  EXPECT_EQ(numbers(points), (Numbers{{3, 0}}));
}

}  // namespace
}  // namespace kedge::test
