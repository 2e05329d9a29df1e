// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"
#include "lab/world.h"
#include "stitch/stitch_plan.h"
#include "stitch/stitch_settings.h"

#include <gtest/gtest.h>
#include <kedge/kedge.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <iterator>

namespace kedge {
namespace {

using test::expect_error;
using test::kAllMethods;
using test::kClusters;
using test::options_for;
using test::World;

TEST(Stitch, AgreesWithFitAttachAndCompareByHand) {
  const World world;
  const StitchData data = world.data();
  StitchOptions options = options_for({"consensus", kClusters, "param-multi", "param-cosine"});
  options.hold_out = {"b"};
  const StitchResults results = stitch(data, options);
  for (const StitchMethod& method : options.methods) {
    const FitOptions fit_options = fit_options_of(method, options.points.front(), 0, train_rows(data));
    const Space a = data.spaces[0].with_rows(data.train);
    const Space b = data.spaces[1].with_rows(data.train);
    const Space c = data.spaces[2].with_rows(data.train);
    const std::vector<Space> sources{a, c};
    const Bundle learned = fit(sources, fit_options);
    const Bundle bundle = learned.with(attach(learned, b));
    const auto rr = [&](const Space& space) {
      return bundle.map(space.name())->apply(space.with_rows(data.test).read_all().view());
    };
    const Comparison expected = compare(rr(c).view(), rr(b).view());
    const auto found = std::ranges::find_if(results.measurements, [&](const Measurement& m) {
      return m.method == to_string(method) && m.trained_on == "c" && m.encoder == "b";
    });
    ASSERT_NE(found, results.measurements.end());
    EXPECT_NEAR(found->pair->mrr, expected.mrr, 1e-6) << found->method;
    EXPECT_NEAR(found->pair->nmse, expected.nmse, 1e-4 * expected.nmse) << found->method;
    EXPECT_NEAR(*found->rr_std, expected.rr_std_b, 1e-4 * expected.rr_std_b) << found->method;
    EXPECT_TRUE(found->zero_shot());
  }
  EXPECT_EQ(results.measurements.size(), 4U * 3U);
}

TEST(Stitch, RidgeIsTheAdapterOfEachPair) {
  const World world;
  const StitchData data = world.data();
  const StitchOptions options = options_for({"ridge", "ridge-inner"});
  const StitchResults results = stitch(data, options);
  EXPECT_EQ(results.measurements.size(), 2U * 3U * 2U);
  for (const Measurement& found : results.measurements) {
    const auto train = [&](const std::string& name) {
      const auto space = std::ranges::find(data.spaces, name, &Space::name);
      return space->with_rows(data.train);
    };
    const std::vector<Space> pair{train(found.encoder), train(found.trained_on)};
    const FitOptions settings =
        fit_options_of(parse_stitch_method(found.method), options.points.front(), 0, train_rows(data));
    EXPECT_EQ(settings.method, Method(Adapter{Pairwise::ridge}));
    const Bundle bundle = fit(pair, settings);
    const auto rr = [&](const Space& space) {
      return bundle.map(space.name())->apply(space.with_rows(data.test).read_all().view());
    };
    const Comparison expected = compare(rr(pair[1]).view(), rr(pair[0]).view());
    EXPECT_NEAR(found.pair.value().mrr, expected.mrr, 1e-6) << found.method;
    EXPECT_TRUE(found.labels.has_value());
  }
}

TEST(Stitch, PointsThatDifferInEpsilonHaveStatisticsOfTheirOwn) {
  const World world;
  const auto measured = [&](const std::vector<double>& epsilons) {
    StitchOptions options = options_for({"consensus", "random-wip"});
    const FitArguments point = options.points.front();
    options.points.clear();
    for (const double epsilon : epsilons) {
      options.points.push_back(point);
      options.points.back().anchors = epsilon < 1 ? 6 : 5;  // which tells their measurements apart
      options.points.back().whitening.epsilon = epsilon;
    }
    std::vector<double> found;
    for (const Measurement& m : stitch(world.data(), options).measurements) found.push_back(*m.rr_std);
    return found;
  };
  std::vector<double> alone = measured({5e-8});
  std::ranges::copy(measured({1.0}), std::back_inserter(alone));
  std::vector<double> together = measured({5e-8, 1.0});
  ASSERT_EQ(together.size(), alone.size());
  std::ranges::sort(alone);
  std::ranges::sort(together);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(together[i], alone[i], 1e-5 * alone[i]);
}

TEST(Stitch, MeasuresEveryPairOfEveryMethodAndSeed) {
  const World world;
  StitchOptions options = options_for(kAllMethods);
  options.seeds = {0, 5};
  std::size_t told = 0;
  const StitchResults results = stitch(world.data(), options, {}, {}, [&](const StitchEvent& event) {
    EXPECT_EQ(event.done, ++told);
    EXPECT_FALSE(event.measured.empty());
  });
  EXPECT_EQ(results.measurements.size(), 2U * (3U + 10U * 9U));
  EXPECT_EQ(told, 2U * (3U + 2U + 3U * 8U));
  for (const Measurement& m : results.measurements) {
    EXPECT_TRUE(m.labels && m.targets);
    EXPECT_EQ(m.pair.has_value(), m.zero_shot());
    EXPECT_EQ(m.rr_std.has_value(), m.method != "absolute");
  }
}

TEST(Stitch, AMethodMeasuresTheSameAloneAndInCompany) {
  const OneThread for_all;  // a run alone would have every thread, and BLAS may round differently with more of them
  const World world;
  const SupportSelect third = have_faiss() ? SupportSelect::kmeans : SupportSelect::leverage;
  for (const SupportSelect select : {SupportSelect::random, SupportSelect::fps, third}) {
    StitchOptions together =
        options_for({"random-cosine", "random-wip", "param-cosine", "param-multi", "random-ridge"});
    together.points.front().support_select = select;
    const StitchResults all = stitch(world.data(), together);
    for (const StitchMethod& method : together.methods) {
      StitchOptions alone = together;
      alone.methods = {method};
      const std::vector<Measurement> measured = stitch(world.data(), alone).measurements;
      EXPECT_EQ(measured.size(), 9U);
      for (const Measurement& m : measured) {
        const auto same = std::ranges::find_if(all.measurements, [&](const Measurement& other) {
          return other.method == m.method && other.encoder == m.encoder && other.trained_on == m.trained_on;
        });
        ASSERT_NE(same, all.measurements.end());
        EXPECT_EQ(same->labels->weighted_f1, m.labels->weighted_f1) << m.method << " " << to_string(select);
        EXPECT_EQ(same->targets->mse, m.targets->mse) << m.method << " " << to_string(select);
      }
    }
  }
}

TEST(Stitch, PicturesOfOtherPairsDoNotStandSideBySide) {
  const World world;
  StitchOptions options = options_for({"random-cosine"});
  options.hold_out = {"a"};
  StitchResults results = stitch(world.data(), options);
  EXPECT_THAT(results.figures, ::testing::HasSubstr(R"("methods":{"random-cosine":)"));
  options = options_for({"consensus"});
  options.hold_out = {"c"};
  results = stitch(world.data(), options, results);
  EXPECT_THAT(results.figures, ::testing::HasSubstr(R"("methods":{"consensus":)"));
  EXPECT_THAT(results.figures, ::testing::Not(::testing::HasSubstr(R"("methods":{"random-cosine":)")));
}

TEST(Stitch, FindsUnderEachSimilarityWhatItsMethodFinds) {
  const World world;
  const StitchResults results = stitch(world.data(), options_for({"random-cosine", "random-wip"}));
  const auto figures = nlohmann::json::parse(results.figures);
  for (const std::string similarity : {"cosine", "wip"}) {
    double sum = 0, pairs = 0;
    for (const Measurement& m : results.measurements) {
      if (m.method != "random-" + similarity || !m.pair) continue;
      sum += m.pair->recall.front();
      ++pairs;
    }
    const auto& all = figures.at("similarities");
    const auto shown = std::find_if(all.begin(), all.end(),
                                    [&](const nlohmann::json& one) { return one.at("similarity") == similarity; });
    ASSERT_NE(shown, all.end());
    EXPECT_GT(sum, 0);
    EXPECT_NEAR(shown->at("found_first").get<double>(), sum / pairs, 1e-9) << similarity;
  }
}

TEST(Stitch, SettingsKnowThePrecisionWhereItMatters) {
  const World world;
  const StitchData data = world.data();
  StitchOptions options = options_for({"consensus"});
  const std::string plain = settings_of(data, options);
  EXPECT_THAT(plain, ::testing::Not(::testing::HasSubstr("precision")));
  options.points.front().precision = Precision::fp32;
  EXPECT_EQ(settings_of(data, options), plain) << "a processor knows no tf32";
  options.points.front().precision = Precision::bf16;
  options.points.front().device = Device::cuda;
  EXPECT_THAT(settings_of(data, options), ::testing::HasSubstr(R"("precision":"bf16")"));
  expect_error(
      Code::bad_argument, [&] { require_same_settings(plain, settings_of(data, options)); }, "fit.device", "cuda");
}

TEST(Stitch, StopsWhenProgressThrows) {
  const World world;
  std::atomic<int> calls = 0;
  const auto stop = [&](const ProgressReport&) {
    if (++calls == 3) throw Error(Code::failed, "enough");
  };
  expect_error(
      Code::failed, [&] { (void)stitch(world.data(), options_for({"param-multi"}), {}, stop); }, "enough");
}

TEST(Stitch, KernelOptionsAreForThoseMethodsThatTakeThem) {
  const World world;
  StitchOptions options = options_for({"consensus", "consensus-kernel"});
  options.hold_out = {"b"};
  options.points.front().kernel.width = 2;
  EXPECT_EQ(stitch(world.data(), options).runs.size(), 2U);
  options.methods.pop_back();
  options.points.front().effort = Effort::best;
  EXPECT_EQ(stitch(world.data(), options).runs.front().method, "consensus-kernel");
}

TEST(Stitch, RidgeThatIsNamedStaysRidgeUnderTheBestEffort) {
  const World world;
  StitchOptions options = options_for({"consensus", "consensus-ridge", "consensus-kernel"});
  options.hold_out = {"b"};
  const auto methods = [&] {
    std::vector<std::string> names;
    for (const StitchRun& run : stitch(world.data(), options).runs) names.push_back(run.method);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(methods(), (Names{"consensus", "consensus-kernel"}));
  options.points.front().effort = Effort::best;
  EXPECT_EQ(methods(), (Names{"consensus-kernel", "consensus"}));
  const FitOptions fit_options = fit_options_of(options.methods[1], options.points.front(), 0, 120);
  EXPECT_EQ(fit_options.attach_by, AttachBy::ridge);
}

TEST(Stitch, RefusesWhatDoesNotFitTogether) {
  const World world;
  const StitchOptions options = options_for({"consensus"});
  const auto refused = [&](auto change, auto... words) {
    StitchData data = world.data();
    StitchOptions own = options;
    change(data, own);
    expect_error(
        Code::bad_argument, [&] { (void)stitch(data, own); }, words...);
  };
  refused([](StitchData& d, auto&) { d.test = {100, 160}; }, "overlap", "100:160", "0:120");
  refused([](StitchData& d, auto&) { d.test = {120, 161}; }, "test rows 120:161", "160 rows");
  refused([](StitchData& d, auto&) { d.spaces.erase(d.spaces.begin() + 1, d.spaces.end()); }, "two spaces");
  refused([](StitchData& d, auto&) { d.labels.pop_back(); }, "159 labels for 160 rows");
  refused([](StitchData& d, auto&) { std::ranges::fill(d.labels, 4); }, "label 4", "two classes");
  refused([](StitchData& d, auto&) { d.labels[150] = 77; }, "label 77 of test row 150", "train rows 0:120");
  refused([](auto&, StitchOptions& o) { o.hold_out = {"d"}; }, "'d'", "a, b, c");
  refused([](auto&, StitchOptions& o) { o.methods.clear(); }, "no method");
  refused([](auto&, StitchOptions& o) { o.seeds.clear(); }, "no seed");
  refused([](auto&, StitchOptions& o) { o.head.kind = HeadKind::ridge; }, "ridge decodes targets");
  refused([](StitchData& d, auto&) { d.target_shape = {2, 2}; }, "2x2", "4 values", "have 3");
  refused([](StitchData& d, auto&) { d.target_shape = {3}; }, "shape 3", "height x width");
  refused([](auto&, StitchOptions& o) { o.points.front().anchors = 61; }, "61");
  refused([](auto&, StitchOptions& o) { o.points.front().kernel.width = 2; }, "kernel was given",
          "no method makes maps by kernel: consensus;", "consensus-kernel");
}

}  // namespace
}  // namespace kedge
