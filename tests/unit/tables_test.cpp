// SPDX-License-Identifier: Apache-2.0
#include "stitch/resample.h"
#include "support.h"

#include <gtest/gtest.h>
#include <kedge/lab/results.h>

#include <cmath>

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
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    const double up = 0.01 * static_cast<double>(seed);
    results.measurements.push_back(measured("absolute", "x_1", "x_1", seed, 0.95));
    results.measurements.push_back(measured("random-cosine", "x_1", "x_1", seed, 0.80 + up));
    results.measurements.push_back(measured("random-cosine", "y&", "x_1", seed, 0.30 + up, 0.1));
    results.measurements.push_back(measured("consensus", "x_1", "x_1", seed, 0.80 + up));
    results.measurements.push_back(measured("consensus", "y&", "x_1", seed, 0.90 + up, 0.8));
  }
  return results;
}

/// Resampled F1 and MRR that scatter around the measured ones: by `noise` with the same signs for all, as rows that
/// all find hard make them, and by `apart` with signs of the measurement's own.
StitchResults resampled(StitchResults results, double noise, double apart) {
  unsigned number = 0;
  for (Measurement& m : results.measurements) {
    ++number;
    for (std::size_t i = 0; i < Resamples::kCount; ++i) {
      const double moved = (i % 2 == 0 ? noise : -noise) + ((i >> (1 + number % 4)) % 2 == 0 ? apart : -apart);
      m.resampled["weighted_f1"].push_back(m.labels->weighted_f1 + moved);
      if (m.pair) m.resampled["mrr"].push_back(m.pair->mrr + moved);
    }
  }
  return results;
}

StitchResults close_race() {
  StitchResults results = two_encoders();
  std::erase_if(results.measurements, [](const Measurement& m) { return m.seed > 0; });
  for (Measurement& m : results.measurements) {
    if (m.method == "consensus") m.labels->weighted_f1 = 0.31;
  }
  return results;
}

TEST(Tables, CallNothingBestWithinNoise) {
  const std::string heads = "| x_1 | y& | – | ";
  EXPECT_THAT(markdown_tables(close_race()), HasSubstr(heads + "30.0 | 31.0 |"));  // nobody knows the noise
  EXPECT_THAT(markdown_tables(resampled(close_race(), 0, 0.02)), HasSubstr(heads + "30.0 ± 3.9 | 31.0 ± 3.9 |"));
  // Rows that are hard for both do not hide a difference.
  EXPECT_THAT(markdown_tables(resampled(close_race(), 0.02, 0)), HasSubstr(heads + "30.0 ± 3.9 | **31.0 ± 3.9** |"));
}

TEST(Tables, RoundNothingUpToAll) {
  StitchResults results = close_race();
  for (Measurement& m : results.measurements) m.labels->weighted_f1 = 0.9997;
  EXPECT_THAT(markdown_tables(results), HasSubstr("| x_1 | y& | – | 99.9 | 99.9 |"));
  for (const double all : {1.0, 1 - 1e-15}) {  // a sum of shares may miss the whole by its rounding
    for (Measurement& m : results.measurements) m.labels->weighted_f1 = all;
    EXPECT_THAT(markdown_tables(results), HasSubstr("| x_1 | y& | – | 100.0 | 100.0 |"));
  }
}

TEST(Tables, WarnOfHeadsThatAreBelowLogisticRegression) {
  StitchResults results = close_race();
  for (Measurement& m : results.measurements) {
    if (!m.zero_shot()) m.linear_f1 = m.method == "consensus" ? 0.97 : m.labels->weighted_f1 + 0.005;
  }
  ASSERT_EQ(head_warnings(results).size(), 1U);
  EXPECT_THAT(head_warnings(results).front(), HasSubstr("heads of consensus"));
  EXPECT_THAT(head_warnings(results).front(),
              HasSubstr("F1 of 31.0 %, logistic regression on the same features 97.0 %"));
  EXPECT_THAT(markdown_tables(results), HasSubstr("> The heads of consensus are undertrained"));
}

TEST(Tables, WarnOfHeadsOnOneEncoderThoughThoseOnAnotherAreBetter) {
  StitchResults results = close_race();
  results.measurements.push_back(measured("consensus", "y&", "y&", 0, 0.9));
  for (Measurement& m : results.measurements) {
    if (m.method == "consensus" && !m.zero_shot()) m.linear_f1 = m.encoder == "y&" ? 0.5 : 0.4;
  }
  ASSERT_EQ(head_warnings(results).size(), 1U);
  EXPECT_THAT(head_warnings(results).front(),
              HasSubstr("heads of consensus are undertrained on x_1: on x_1 they reach"));
}

TEST(Resamples, HaveTheSpreadThatAShareHas) {
  std::vector<double> right(400);
  std::vector<std::int64_t> truth(400);
  std::vector<std::int64_t> predicted(400);
  for (std::size_t i = 0; i < right.size(); ++i) {
    truth[i] = static_cast<std::int64_t>(i % 2);
    right[i] = i % 5 == 0 ? 0 : 1;
    predicted[i] = i % 5 == 0 ? 1 - truth[i] : truth[i];
  }
  const Resamples resamples(400);
  const Estimate share{{{0, 0.8}}, resamples.means(right)};
  EXPECT_NEAR(share.noise().value(), 1.96 * std::sqrt(0.8 * 0.2 / 400), 0.01);
  const Estimate f1{{{0, 0.8}}, resamples.weighted_f1(truth, predicted)};
  EXPECT_NEAR(f1.noise().value(), share.noise().value(), 0.005);
  EXPECT_EQ(difference(share, share).noise(), 0);  // the same rows are drawn for all
}

TEST(Estimate, AddsTheSpreadOverSeedsToThatOverRows) {
  EXPECT_FALSE((Estimate{{{0, 1.0}}, {}}.noise()));
  EXPECT_NEAR((Estimate{{{0, 1.0}, {1, 3.0}, {2, 2.0}}, {}}.noise().value()), 4.303 / std::sqrt(3.0), 0.05);
  std::vector<double> rows(Resamples::kCount);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i % 2 == 0 ? 1 : 3;
  EXPECT_GT((Estimate{{{0, 1.0}, {1, 3.0}, {2, 2.0}}, rows}.noise().value()), 2);
}

TEST(Estimate, OfTwoSeedsTakesTheNormalQuantile) {
  const std::map<std::uint64_t, double> seeds{{0, 41.0}, {1, 81.0}};
  EXPECT_FALSE((Estimate{seeds, {}}.noise()));
  std::vector<double> rows(Resamples::kCount);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i % 2 == 0 ? 60 : 62;
  EXPECT_NEAR((Estimate{seeds, rows}.noise().value()), 1.96 * std::sqrt(400 + 1), 0.1);
}

TEST(Tables, HaveNoIntervalBeyondAllValues) {
  StitchResults results = two_encoders();
  for (Measurement& m : results.measurements) m.labels->weighted_f1 = 0.3 + 0.3 * static_cast<double>(m.seed);
  EXPECT_THAT(markdown_tables(results), HasSubstr("| x_1 | y& | – | 60.0 ± 60.0 | 60.0 ± 60.0 |"));
  EXPECT_NEAR(*mean_scores(results).front().scores.front().noise, 60, 1e-9);
}

TEST(Tables, GiveMeanAndNoiseAndTheBestInBold) {
  const std::string text = markdown_tables(two_encoders());
  EXPECT_THAT(text, HasSubstr("| encoder | head trained on | absolute | random-cosine | consensus |"));
  EXPECT_THAT(text, HasSubstr("| x_1 | y& | – | 31.0 ± 2.5 | **91.0 ± 2.5** |"));
  EXPECT_THAT(text, HasSubstr("| x_1 | x_1 | 95.0 ± 0.0 | 81.0 ± 2.5 | 81.0 ± 2.5 |"));
  EXPECT_THAT(text, HasSubstr("| y& | x_1 | 5.0 ± 0.0 | 10.0 ± 0.0 | **40.0 ± 0.0** | **80.0 ± 0.0** |"));
  EXPECT_THAT(text, HasSubstr("| nMSE | 0.900 ± 0.000 | **0.200 ± 0.000** |"));  // smaller is better
  EXPECT_THAT(text, HasSubstr("| RR_std | 1.250 ± 0.000 | 1.250 ± 0.000 |"));    // neither is
}

TEST(Tables, SpeakLatexWithoutItsSpecialCharacters) {
  const std::string text = latex_tables(two_encoders());
  EXPECT_THAT(text, HasSubstr("\n & y\\& & -- & $31.0 \\pm 2.5$ & $\\mathbf{91.0 \\pm 2.5}$ \\\\"));
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
  std::erase_if(results.measurements, [](const Measurement& m) { return m.seed > 0; });
  EXPECT_THAT(markdown_tables(results), HasSubstr("| x_1 | y& | – | 30.0 | 90.0 |"));
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
  EXPECT_THAT(text, HasSubstr("| 50 | 5000 | 0.15 | 21.0 ± 2.5 | **81.0 ± 2.5** |"));
  EXPECT_THAT(text, HasSubstr("| 300 | 5000 | 0.15 | 31.0 ± 2.5 | **91.0 ± 2.5** |"));
}

TEST(MeanScores, AreTakenOverZeroShotPairsOnly) {
  const std::vector<MethodScores> scores = mean_scores(two_encoders());
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_EQ(scores[0].method, "absolute");
  EXPECT_NEAR(scores[0].scores.front().mean, 95, 1e-9);
  EXPECT_NEAR(scores[2].scores.front().mean, 91, 1e-9);
  EXPECT_NEAR(*scores[2].scores.front().std, 1, 1e-9);
}

TEST(ResultsFile, ReadsBackWhatItWroteAndRefusesTheRest) {
  const test::TemporaryFolder folder;
  const std::string out = folder.file("");
  EXPECT_TRUE(load_results(out).measurements.empty());
  StitchResults whole = resampled(two_encoders(), 0.01, 0.01);
  whole.measurements.front().linear_f1 = 0.96;
  save_results(whole, out);
  const StitchResults loaded = load_results(out);
  EXPECT_EQ(markdown_tables(loaded), markdown_tables(whole));
  EXPECT_EQ(loaded.measurements.front().linear_f1, 0.96);
  EXPECT_NEAR(loaded.measurements.back().resampled.at("mrr").at(2), whole.measurements.back().resampled.at("mrr")[2],
              1e-6);
  EXPECT_THAT(test::read_file(folder.file("results.csv")), HasSubstr("consensus,x_1,y&,true,2,300,5000,0.15,0.92"));
  for (const char* text :
       {"", "{", "[]", "{\"format\": \"kedge results\"}", "{\"format\": \"other\"}", "{\"format\": 7}"}) {
    test::write_file(folder.file("results.json"), text);
    test::expect_error(
        Code::bad_file, [&] { (void)load_results(out); }, "results.json", "cannot be read");
  }
  const auto refused = [&](const std::string& from, const std::string& to, const char* word) {
    save_results(whole, out);
    std::string text = test::read_file(folder.file("results.json"));
    ASSERT_NE(text.find(from), std::string::npos);
    test::write_file(folder.file("results.json"), text.replace(text.find(from), from.size(), to));
    test::expect_error(
        Code::bad_file, [&] { (void)load_results(out); }, word);
  };
  refused("\"mrr\":0.8", "\"mrr\":7", "'mrr' is not between 0 and 1");
  refused("\"linear_f1\":0.96", "\"linear_f1\":96", "'linear_f1' is not between 0 and 1");
  refused("\"resamples\": [", "\"resamples\": [{},", "not one for each record");
  refused("{\"weighted_f1\":[", "{\"weighted_f1\":[null,", "not all numbers");
  refused("{\"weighted_f1\":[", "{\"other\":7,\"weighted_f1\":[", "'other' is not a list");
  refused("\"seed\":1", "\"seed\":-1", "'seed' is not a whole number");
  refused("\"format_version\": 1", "\"format_version\": 0", "format version 0");
  refused("\"method\":\"consensus\"", "\"method\":\"census\"", "'census'");
}

}  // namespace
}  // namespace kedge
