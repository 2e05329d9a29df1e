// SPDX-License-Identifier: Apache-2.0
#include "backend/neighbors.h"
#include "stitch/stitch_run.h"
#include "stitch/stitch_settings.h"
#include "support.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <kedge/lab/results.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>

namespace kedge {
namespace {

using test::expect_error;
using test::random_matrix;

constexpr std::size_t kRows = 160;
constexpr std::size_t kTrainRows = 120;

/// Three spaces that see the same four causes, and a class and targets that follow from them.
struct World {
  std::vector<Matrix> spaces;
  Matrix targets{kRows, 3};
  std::vector<std::int64_t> labels;

  World() {
    const Matrix causes = random_matrix(kRows, 4, 1);
    for (const std::size_t dim : {8U, 6U, 7U}) {
      const Matrix mix = random_matrix(4, dim, static_cast<unsigned>(dim));
      Matrix space = random_matrix(kRows, dim, static_cast<unsigned>(100 + dim));
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t c = 0; c < dim; ++c) {
          float& cell = space.row(r)[c];
          cell = 3 + 0.1F * cell;
          for (std::size_t i = 0; i < 4; ++i) cell += causes.row(r)[i] * mix.row(i)[c];
        }
      }
      spaces.push_back(std::move(space));
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      labels.push_back((causes.row(r)[0] > 0 ? 1 : 0) + (causes.row(r)[1] > 0 ? 2 : 0));
      for (std::size_t c = 0; c < 3; ++c) targets.row(r)[c] = causes.row(r)[c];
    }
  }

  [[nodiscard]] StitchData data() const {
    StitchData data;
    const char* const names[] = {"a", "b", "c"};
    for (std::size_t i = 0; i < spaces.size(); ++i) data.spaces.push_back(test::space_of(names[i], spaces[i]));
    data.train = {0, kTrainRows};
    data.test = {kTrainRows, kRows};
    data.labels = labels;
    data.targets = view_rows(targets.view(), "targets");
    return data;
  }
};

StitchOptions options_for(const std::vector<std::string>& methods) {
  StitchOptions options;
  for (const std::string& method : methods) options.methods.push_back(parse_stitch_method(method));
  FitOptions& point = options.points.front();
  point.anchors = 6;
  point.support = 60;
  point.param.epochs = 4;
  point.param.batch = 32;
  options.head.epochs = 3;
  return options;
}

/// What chooses rows by looking at all of them, in builds without FAISS too.
const std::string kClusters = have_faiss() ? "kmeans-wip" : "fps-wip";

const std::vector<std::string> kAllMethods{"absolute",   "random-cosine", "random-wip",  kClusters,
                                           "fps-cosine", "param-single",  "param-multi", "param-cosine",
                                           "consensus",  "param-ridge",   "random-ridge"};

void poison(Matrix& space, std::size_t first, float value) {
  for (std::size_t r = first; r < space.rows(); ++r) std::ranges::fill(space.row(r), value);
}

TEST(StitchPlan, NeverLearnsFromTheEncoderItJudges) {
  const World world;
  const StitchData data = world.data();
  const StitchOptions options = options_for(kAllMethods);
  std::size_t learned = 0;
  for (const PlannedRun& run : plan_runs(data, options)) {
    for (const auto& [trained_on, encoder] : run.pairs) {
      const StitchMethod& method = run.methods.front();
      const bool learns = (method.anchors != StitchMethod::Anchors::random || method.ridge) && !run.sources.empty();
      if (!learns || trained_on == encoder) continue;
      EXPECT_EQ(std::ranges::count(run.sources, encoder), 0) << to_string(run.methods.front());
      ++learned;
    }
  }
  // k-means, fps, param-single, param (shared by three methods), consensus, random rows with ridge
  EXPECT_EQ(learned, 6U * 6U);
}

TEST(Stitch, AHeldOutSpaceChangesNothingInTheMixture) {
  const World world;
  World poisoned;
  poison(poisoned.spaces[2], 0, std::numeric_limits<float>::quiet_NaN());  // reading any of its rows would throw
  const StitchOptions options = options_for(kAllMethods);
  const StitchData data = world.data();
  const StitchData bad = poisoned.data();
  const StitchContext context(data, options);
  const StitchContext bad_context(bad, options);
  std::size_t compared = 0;
  for (const PlannedRun& run : plan_runs(data, options)) {
    if (run.sources.empty() || std::ranges::count(run.sources, 2U) > 0) continue;
    const Bundle learned = learn_anchors(context, run, {});
    const Bundle again = learn_anchors(bad_context, run, {});
    EXPECT_TRUE(std::ranges::equal(learned.mixture.cells(), again.mixture.cells()));
    EXPECT_EQ(learned.support_ids, again.support_ids);
    ++compared;
  }
  EXPECT_EQ(compared, 1U + 2U + 5U);  // random; single on a and on b; k-means, fps, param, consensus, ridge without c
}

TEST(Stitch, TestRowsReachNeitherAnchorsNorWhiteningNorMaps) {
  World poisoned;
  for (Matrix& space : poisoned.spaces) poison(space, kTrainRows, std::numeric_limits<float>::quiet_NaN());
  const World world;
  const StitchOptions options = options_for(kAllMethods);
  const StitchData data = world.data();
  const StitchData bad = poisoned.data();
  const StitchContext context(data, options);
  const StitchContext bad_context(bad, options);
  for (const PlannedRun& run : plan_runs(data, options)) {
    if (run.sources.empty()) continue;
    Bundle learned = learn_anchors(context, run, {});
    Bundle again = learn_anchors(bad_context, run, {});
    attach_missing(context, run, learned);
    attach_missing(bad_context, run, again);
    for (const char* name : {"a", "b", "c"}) {
      EXPECT_TRUE(std::ranges::equal(learned.map(name)->weight().cells(), again.map(name)->weight().cells()));
    }
  }
}

TEST(Stitch, TestRowsDoNotReachHeads) {
  World changed;
  constexpr std::size_t kUntouched = 4;
  for (Matrix& space : changed.spaces) poison(space, kTrainRows + kUntouched, 1e6F);
  poison(changed.targets, kTrainRows + kUntouched, -50);
  for (std::size_t r = kTrainRows + kUntouched; r < kRows; ++r) changed.labels[r] = 0;
  const World world;
  StitchOptions options = options_for(kAllMethods);
  options.samples = kUntouched;
  const StitchData data = world.data();
  const StitchData other = changed.data();
  const StitchContext context(data, options);
  const StitchContext other_context(other, options);
  std::size_t decoded = 0;
  for (const PlannedRun& run : plan_runs(data, options)) {
    if (!run.shown) continue;
    const RunOutcome a = execute(context, run, {});
    const RunOutcome b = execute(other_context, run, {});
    ASSERT_EQ(a.shown.size(), b.shown.size());
    for (std::size_t i = 0; i < a.shown.size(); ++i) {
      ASSERT_EQ(a.shown[i].decoded.rows(), kUntouched);
      EXPECT_TRUE(std::ranges::equal(a.shown[i].decoded.cells(), b.shown[i].decoded.cells())) << a.shown[i].method;
      ++decoded;
    }
  }
  EXPECT_EQ(decoded, kAllMethods.size());
}

TEST(Stitch, AgreesWithFitAttachAndCompareByHand) {
  const World world;
  const StitchData data = world.data();
  StitchOptions options = options_for({"consensus", kClusters, "param-multi", "param-cosine"});
  options.hold_out = {"b"};
  const StitchResults results = stitch(data, options);
  for (const StitchMethod& method : options.methods) {
    FitOptions fit_options = fit_options_of(method, options.points.front(), 0);
    if (fit_options.method != Method::param) fit_options.param = {};  // fit() refuses options of other methods
    const Space a = data.spaces[0].with_rows(data.train);
    const Space b = data.spaces[1].with_rows(data.train);
    const Space c = data.spaces[2].with_rows(data.train);
    const std::vector<Space> sources{a, c};
    Bundle bundle = fit(sources, fit_options);
    bundle.add(attach(bundle, b));
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
      for (const Measurement& m : stitch(world.data(), alone).measurements) {
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

TEST(Stitch, FiguresThatAreNotOursAreMadeAnew) {
  const World world;
  const StitchOptions options = options_for({"consensus"});
  const StitchResults whole = stitch(world.data(), options);
  for (const char* text :
       {"", "[]", "{", R"({"relative":[1]})", R"({"similarities":1})", R"({"reconstructions":[]})"}) {
    StitchResults known = whole;
    known.figures = text;
    EXPECT_EQ(stitch(world.data(), options, known).figures, whole.figures) << text;
  }
}

TEST(Stitch, DoesNotComputeAgainWhatIsKnown) {
  const World world;
  const test::TemporaryFolder folder;
  StitchOptions options = options_for({"absolute", "param-multi", "consensus"});
  const StitchResults first = stitch(world.data(), options);
  save_results(first, folder.file(""));
  const StitchResults loaded = load_results(folder.file(""));
  ASSERT_EQ(loaded.measurements.size(), first.measurements.size());
  for (std::size_t i = 0; i < first.measurements.size(); ++i) {
    EXPECT_EQ(loaded.measurements[i].method, first.measurements[i].method);
    EXPECT_EQ(loaded.measurements[i].labels->weighted_f1, first.measurements[i].labels->weighted_f1);
    EXPECT_EQ(loaded.measurements[i].targets->mse, first.measurements[i].targets->mse);
    ASSERT_EQ(loaded.measurements[i].pair.has_value(), first.measurements[i].pair.has_value());
    if (!first.measurements[i].pair) continue;
    EXPECT_EQ(loaded.measurements[i].pair->recall, first.measurements[i].pair->recall);
  }
  std::size_t runs = 0;
  const auto count = [&](const StitchEvent&) { ++runs; };
  EXPECT_EQ(stitch(world.data(), options, loaded, {}, count).measurements.size(), first.measurements.size());
  EXPECT_EQ(runs, 0U);
  options.methods.push_back(parse_stitch_method("param-cosine"));
  const StitchResults more = stitch(world.data(), options, loaded, {}, count);
  EXPECT_EQ(runs, 3U);
  EXPECT_EQ(more.measurements.size(), first.measurements.size() + 9);

  options.points.front().param.epochs = 5;
  expect_error(
      Code::bad_argument, [&] { (void)stitch(world.data(), options, loaded); }, "fit.epochs was 4 and is now 5");
  World other;
  other.spaces[1].row(0)[0] += 1;
  options.points.front().param.epochs = 4;
  expect_error(
      Code::bad_argument, [&] { (void)stitch(other.data(), options, loaded); }, "embeddings of \"b\" have changed");
}

/// Results that no computation gives, so that a record that was made again shows on every machine.
StitchResults altered(StitchResults results) {
  for (Measurement& m : results.measurements) {
    m.labels->weighted_f1 = (1 + m.labels->weighted_f1) / 3;
    m.targets->mse += 1000;
    if (m.rr_std) *m.rr_std += 1000;
    if (m.pair) m.pair->nmse += 1000;
  }
  for (StitchRun& run : results.runs) {
    run.seconds += 1000;
    for (Losses& losses : run.history) losses.total += 1000;
  }
  return results;
}

/// All of results.json but its head, in its order.
std::string text_of(const StitchResults& results) {
  std::string text = records_json(results);
  for (const StitchRun& run : results.runs) {
    text += fmt::format("\n{} {} {} {} {}", run.method, fmt::join(run.sources, "+"), run.seed, run.point.anchors,
                        run.seconds);
    for (const Losses& losses : run.history) text += fmt::format(" {}", losses.total);
  }
  return text;
}

TEST(Stitch, KnownRecordsStayWhateverIsRunAgainForFiguresOrBundles) {
  const World world;
  const test::TemporaryFolder folder;
  StitchOptions options = options_for({"absolute", "random-cosine", "random-wip", "param-single", "consensus"});
  const StitchResults whole = stitch(world.data(), options);
  StitchResults known = altered(whole);
  known.figures.clear();
  std::size_t runs = 0;
  const auto count = [&](const StitchEvent& event) {
    ++runs;
    EXPECT_TRUE(event.measured.empty()) << event.run.method;
    EXPECT_LT(event.run.seconds, 1000) << "an event tells of the run that was made";
    EXPECT_EQ(text_of(event.so_far), text_of(known));
  };

  const StitchResults drawn = stitch(world.data(), options, known, {}, count);
  EXPECT_EQ(runs, options.methods.size());
  EXPECT_EQ(text_of(drawn), text_of(known));
  EXPECT_EQ(drawn.figures, whole.figures);

  options.bundle_folder = folder.file("");
  EXPECT_EQ(text_of(stitch(world.data(), options, drawn, {}, count)), text_of(known));
  EXPECT_GT(runs, 2 * options.methods.size());

  runs = 0;
  options.bundle_folder.clear();
  options.figures = false;
  EXPECT_EQ(text_of(stitch(world.data(), options, known, {}, count)), text_of(known));
  EXPECT_EQ(runs, 0U) << "nothing is drawn where nobody looks";
}

TEST(Stitch, ARunThatIsKnownInPartAddsTheRest) {
  const World world;
  const StitchOptions options = options_for({"absolute", "random-cosine", "param-multi", "param-single", "consensus"});
  const StitchResults whole = stitch(world.data(), options);
  const StitchResults changed = altered(whole);
  StitchResults known = changed;
  known.measurements.clear();
  StitchResults expected = changed;
  for (std::size_t i = 0; i < whole.measurements.size(); ++i) {
    const bool missing = i % 4 == 1;
    if (missing) expected.measurements[i] = whole.measurements[i];
    if (!missing) known.measurements.push_back(changed.measurements[i]);
  }
  std::size_t added = 0;
  const auto count = [&](const StitchEvent& event) { added += event.measured.size(); };
  EXPECT_EQ(text_of(stitch(world.data(), options, known, {}, count)), text_of(expected));
  EXPECT_EQ(added, whole.measurements.size() - known.measurements.size());
}

TEST(Stitch, SettingsKnowThePrecisionOfAGpuOnly) {
  const World world;
  const StitchData data = world.data();
  StitchOptions options = options_for({"consensus"});
  const std::string plain = settings_of(data, options);
  EXPECT_THAT(plain, ::testing::Not(::testing::HasSubstr("precision")));
  options.points.front().precision = Precision::bf16;
  EXPECT_EQ(settings_of(data, options), plain);
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

TEST(StitchInto, KeepsWhatWasMeasuredWhateverEndsItAndGoesOnFromThere) {
  const World world;
  const test::TemporaryFolder temporary;
  const std::string folder = temporary.file("made/by/itself");
  const StitchOptions options = options_for({"random-cosine", "consensus"});
  const auto enough = [](const StitchEvent& event) {
    if (event.done == 2) throw std::runtime_error("not an error of kedge");
  };
  EXPECT_THROW((void)stitch_into(folder, world.data(), options, false, {}, enough), std::runtime_error);
  const std::size_t kept = load_results(folder).measurements.size();
  EXPECT_GT(kept, 0U);
  std::size_t known = 0;
  const auto look = [&](const StitchEvent& event) { known = event.known; };
  const StitchResults results = stitch_into(folder, world.data(), options, false, {}, look);
  EXPECT_EQ(known, kept);
  EXPECT_EQ(records_json(results), records_json(stitch(world.data(), options)));
  EXPECT_NE(test::read_file(folder + "/results.json").find(records_json(results)), std::string::npos);
}

TEST(StitchInto, DrawsFiguresAgainBesideRecordsThatStay) {
  const World world;
  const test::TemporaryFolder temporary;
  const std::string folder = temporary.file("out");
  const StitchOptions options = options_for({"absolute", "random-cosine", "param-multi"});
  const StitchResults whole = stitch_into(folder, world.data(), options);
  save_results(altered(whole), folder);
  const std::string before = test::read_file(folder + "/results.json");
  const std::string lines = test::read_file(folder + "/results.csv");
  ASSERT_TRUE(std::filesystem::remove(folder + "/figures.json"));
  (void)stitch_into(folder, world.data(), options);
  EXPECT_EQ(test::read_file(folder + "/results.json"), before);
  EXPECT_EQ(test::read_file(folder + "/results.csv"), lines);
  EXPECT_EQ(test::read_file(folder + "/figures.json"), whole.figures);
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
}

}  // namespace
}  // namespace kedge
