// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <gtest/gtest.h>

namespace kedge {
namespace {

using ::testing::HasSubstr;

Measurement measured(const std::string& method, const std::string& trained_on, const std::string& encoder,
                     std::uint64_t seed, double f1, double mrr = 0.5) {
  Measurement m;
  m.method = method;
  m.trained_on = trained_on;
  m.encoder = encoder;
  m.seed = seed;
  m.labels = Classification{f1, f1, f1};
  if (method == "absolute") return m;
  m.point = {300, 5000, "0.15"};
  m.rr_std = 1.25;
  if (trained_on == encoder) return m;
  Comparison pair;
  pair.mrr = mrr;
  pair.recall = {mrr / 2, mrr, mrr};
  pair.nmse = 1 - mrr;
  m.pair = pair;
  return m;
}

StitchResults two_encoders() {
  StitchResults results;
  results.settings = "{}";
  for (const std::uint64_t seed : {0U, 1U}) {
    const double up = seed == 0 ? 0 : 0.02;
    results.measurements.push_back(measured("absolute", "x_1", "x_1", seed, 0.95));
    results.measurements.push_back(measured("random-cosine", "x_1", "x_1", seed, 0.80 + up));
    results.measurements.push_back(measured("random-cosine", "y&", "x_1", seed, 0.30 + up, 0.1));
    results.measurements.push_back(measured("consensus", "x_1", "x_1", seed, 0.80 + up));
    results.measurements.push_back(measured("consensus", "y&", "x_1", seed, 0.90 + up, 0.8));
  }
  return results;
}

TEST(Tables, GiveMeanAndDeviationOverSeedsAndTheBestInBold) {
  const std::string text = markdown_tables(two_encoders());
  EXPECT_THAT(text, HasSubstr("| encoder | head trained on | absolute | random-cosine | consensus |"));
  EXPECT_THAT(text, HasSubstr("| x_1 | y& | – | 31.0 ± 1.4 | **91.0 ± 1.4** |"));
  EXPECT_THAT(text, HasSubstr("| x_1 | x_1 | 95.0 ± 0.0 | 81.0 ± 1.4 | 81.0 ± 1.4 |"));
  EXPECT_THAT(text, HasSubstr("| y& | x_1 | 5.0 ± 0.0 | 10.0 ± 0.0 | **40.0 ± 0.0** | **80.0 ± 0.0** |"));
  EXPECT_THAT(text, HasSubstr("| nMSE | 0.900 ± 0.000 | **0.200 ± 0.000** |"));  // smaller is better
  EXPECT_THAT(text, HasSubstr("| RR_std | 1.250 ± 0.000 | 1.250 ± 0.000 |"));    // neither is
}

TEST(Tables, SpeakLatexWithoutItsSpecialCharacters) {
  const std::string text = latex_tables(two_encoders());
  EXPECT_THAT(text, HasSubstr("\n & y\\& & -- & $31.0 \\pm 1.4$ & $\\mathbf{91.0 \\pm 1.4}$ \\\\"));
  EXPECT_THAT(text, HasSubstr("\\toprule"));
  EXPECT_EQ(std::string::npos, text.find("F1 in %."));  // a comment would swallow the rest of the line
}

TEST(Tables, PraiseNoMethodThatStandsAlone) {
  StitchResults results = two_encoders();
  std::erase_if(results.measurements, [](const Measurement& m) { return m.method == "random-cosine"; });
  EXPECT_EQ(std::string::npos, markdown_tables(results).find("**"));
}

TEST(Tables, OfOneSeedHaveNoDeviation) {
  StitchResults results = two_encoders();
  std::erase_if(results.measurements, [](const Measurement& m) { return m.seed == 1; });
  EXPECT_THAT(markdown_tables(results), HasSubstr("| x_1 | y& | – | 30.0 | **90.0** |"));
}

TEST(Tables, OfASweepHaveARowForEveryPoint) {
  StitchResults results = two_encoders();
  for (Measurement m : two_encoders().measurements) {
    if (m.method == "absolute") continue;
    m.point.anchors = 50;
    m.labels->weighted_f1 -= 0.1;
    results.measurements.push_back(m);
  }
  const std::string text = markdown_tables(results);
  EXPECT_THAT(text, HasSubstr("## Sweep: F1"));
  EXPECT_THAT(text, HasSubstr("| 50 | 5000 | 0.15 | 21.0 ± 1.4 | **81.0 ± 1.4** |"));
  EXPECT_THAT(text, HasSubstr("| 300 | 5000 | 0.15 | 31.0 ± 1.4 | **91.0 ± 1.4** |"));
}

TEST(MeanScores, AreTakenOverZeroShotPairsOnly) {
  const std::vector<MethodScores> scores = mean_scores(two_encoders());
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_EQ(scores[0].method, "absolute");
  EXPECT_NEAR(scores[0].scores.front().mean, 95, 1e-9);
  EXPECT_NEAR(scores[2].scores.front().mean, 91, 1e-9);
  EXPECT_NEAR(*scores[2].scores.front().std, std::sqrt(2.0), 1e-9);
}

TEST(ResultsFile, ReadsBackWhatItWroteAndRefusesTheRest) {
  const test::TemporaryFolder folder;
  const std::string out = folder.file("");
  EXPECT_TRUE(load_results(out).measurements.empty());
  save_results(two_encoders(), out);
  const StitchResults loaded = load_results(out);
  EXPECT_EQ(markdown_tables(loaded), markdown_tables(two_encoders()));
  EXPECT_THAT(test::read_file(folder.file("results.csv")), HasSubstr("consensus,x_1,y&,true,1,300,5000,0.15,0.92"));
  for (const char* text :
       {"", "{", "[]", "{\"format\": \"kedge results\"}", "{\"format\": \"other\"}", "{\"format\": 7}"}) {
    test::write_file(folder.file("results.json"), text);
    test::expect_error(
        Code::bad_file, [&] { (void)load_results(out); }, "results.json", "cannot be read");
  }
  const auto refused = [&](const std::string& from, const std::string& to, const char* word) {
    save_results(two_encoders(), out);
    std::string text = test::read_file(folder.file("results.json"));
    ASSERT_NE(text.find(from), std::string::npos);
    test::write_file(folder.file("results.json"), text.replace(text.find(from), from.size(), to));
    test::expect_error(
        Code::bad_file, [&] { (void)load_results(out); }, word);
  };
  refused("\"mrr\":0.8", "\"mrr\":7", "'mrr' is not between 0 and 1");
  refused("\"seed\":1", "\"seed\":-1", "'seed' is not a whole number");
  refused("\"format_version\": 1", "\"format_version\": 0", "format version 0");
  refused("\"method\":\"consensus\"", "\"method\":\"census\"", "'census'");
}

}  // namespace
}  // namespace kedge
