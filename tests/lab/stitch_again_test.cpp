// SPDX-License-Identifier: Apache-2.0
#include "lab/world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <kedge/lab/results.h>

#include <filesystem>
#include <stdexcept>

namespace kedge {
namespace {

using test::expect_error;
using test::options_for;
using test::World;

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

}  // namespace
}  // namespace kedge
