// SPDX-License-Identifier: Apache-2.0
#include "lab/world.h"
#include "stitch/stitch_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace kedge {
namespace {

using test::kAllMethods;
using test::kRows;
using test::kTrainRows;
using test::options_for;
using test::poison;
using test::World;

TEST(StitchPlan, NeverLearnsFromTheEncoderItJudges) {
  const World world;
  const StitchData data = world.data();
  const StitchOptions options = options_for(kAllMethods);
  std::size_t learned = 0;
  for (const PlannedRun& run : plan_runs(data, options)) {
    for (const auto& [trained_on, encoder] : run.pairs) {
      const StitchMethod& method = run.methods.front();
      const bool learns = (method.anchors != StitchMethod::Anchors::random || method.by) && !run.sources.empty();
      if (!learns || trained_on == encoder) continue;
      EXPECT_EQ(std::ranges::count(run.sources, encoder), 0) << to_string(run.methods.front());
      ++learned;
    }
  }
  // k-means, fps, param-single, param (shared by three methods), consensus, random rows with ridge
  EXPECT_EQ(learned, 6U * 6U);
}

TEST(StitchPlan, MapsThatTheBestEffortLearnsAreNotLearnedFromTheEncoderItJudges) {
  const World world;
  const StitchData data = world.data();
  StitchOptions options = options_for({"absolute", "random-cosine", "random-wip", "consensus"});
  options.points.front().effort = Effort::best;
  const StitchContext context(data, options);
  std::size_t learned = 0;
  for (const PlannedRun& run : plan_runs(data, options)) {
    if (run.sources.empty()) continue;
    if (regresses(learn_anchors(context, run, {}).made().attach_by)) {
      ++learned;
      for (const auto& [trained_on, encoder] : run.pairs) EXPECT_EQ(std::ranges::count(run.sources, encoder), 0);
    } else {
      EXPECT_EQ(to_string(run.methods.front()), "random-cosine");
      EXPECT_EQ(run.methods.size(), 1U) << "those that learn stand apart from it";
    }
  }
  EXPECT_EQ(learned, 2U * 3U);  // random-wip and consensus, each without a, b and c
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
    EXPECT_TRUE(std::ranges::equal(learned.anchors().mixture.cells(), again.anchors().mixture.cells()));
    EXPECT_EQ(learned.anchors().support_ids, again.anchors().support_ids);
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
  std::size_t compared = 0;
  for (const PlannedRun& run : plan_runs(data, options)) {
    if (run.sources.empty()) continue;
    const StitchMethod& method = run.methods.front();
    const Bundle learned = attach_all(context, run, method, learn_anchors(context, run, {}));
    const Bundle again = attach_all(bad_context, run, method, learn_anchors(bad_context, run, {}));
    for (const char* name : {"a", "b", "c"}) {
      EXPECT_TRUE(std::ranges::equal(learned.map(name)->weight().cells(), again.map(name)->weight().cells()));
    }
    ++compared;
  }
  EXPECT_EQ(compared, 1U + 3U + 5U * 3U);  // random; single on each; k-means, fps, param, consensus, ridge without each
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

}  // namespace
}  // namespace kedge
