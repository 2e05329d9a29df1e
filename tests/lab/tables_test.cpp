// SPDX-License-Identifier: Apache-2.0
#include "lab/made_up_results.h"
#include "results/make_tables.h"
#include "results/tables_file.h"
#include "support.h"

#include <gtest/gtest.h>
#include <kedge/lab/results.h>
#include <nlohmann/json.hpp>

#include <string>

namespace kedge {
namespace {

using test::measured;
using test::resampled;
using test::two_encoders;
using ::testing::HasSubstr;

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
  EXPECT_THAT(text,
              HasSubstr("| y& | x_1 | 5.0 ± 0.0 | 10.0 ± 0.0 | 0.100 ± 0.000 | **40.0 ± 0.0** | **80.0 ± 0.0** |"));
  EXPECT_THAT(text, HasSubstr("| nMSE | – | 0.900 ± 0.000 | **0.200 ± 0.000** |"));  // smaller is better
  EXPECT_THAT(text, HasSubstr("| RR_std | – | 1.250 ± 0.000 | 1.250 ± 0.000 |"));    // neither is
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

TEST(Tables, SayWhatTheirIntervalsAreOver) {
  const std::string one = markdown_tables(resampled(close_race(), 0.02, 0));
  EXPECT_THAT(one, HasSubstr("95 % interval over test rows;"));
  EXPECT_THAT(one, HasSubstr("Means over the zero-shot pairs that"));
  EXPECT_THAT(markdown_tables(two_encoders()), HasSubstr("95 % interval over seeds;"));
  const std::string both = markdown_tables(resampled(two_encoders(), 0.02, 0));
  EXPECT_THAT(both, HasSubstr("95 % interval over test rows and seeds;"));
  EXPECT_THAT(both, HasSubstr("Means over the zero-shot pairs and seeds that"));
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

TEST(Tables, OfASweepShowPairsAtItsReferencePoint) {
  StitchResults results = two_encoders();
  for (Measurement m : two_encoders().measurements) {
    if (m.method == "absolute") continue;
    m.labels->weighted_f1 = 0.5;
    for (const StitchPoint& point :
         {StitchPoint{50, 5000, "0.15"}, {300, 100, "0.15"}, {300, 5000, "oas"}, {300, 5000, "0.9"}}) {
      m.point = point;
      results.measurements.insert(results.measurements.begin(), m);
    }
  }
  EXPECT_EQ(reference_point(results), (StitchPoint{300, 5000, "0.15"}));
  const std::string text = markdown_tables(results);
  EXPECT_THAT(text, HasSubstr("31.0 ± 2.5 |"));
  EXPECT_THAT(text, HasSubstr("| y& | "));
  EXPECT_EQ(std::string::npos, text.find("| x_1 | y& | – | 50.0"));
}

/// Random rows look better only because of a seed and an encoder that consensus was not measured on.
StitchResults uneven() {
  StitchResults results = two_encoders();
  results.measurements.push_back(measured("random-cosine", "y&", "x_1", 3, 1.0, 1.0));
  results.measurements.push_back(measured("random-cosine", "x_1", "y&", 0, 1.0, 1.0));
  return results;
}

TEST(Tables, CompareMethodsOnThePairsAndSeedsThatAllHave) {
  const std::string text = markdown_tables(uneven());
  EXPECT_THAT(text, HasSubstr("| F1 | – | 31.0 ± 2.5 | **91.0 ± 2.5** |"));
  EXPECT_THAT(text, HasSubstr("| MRR | – | 0.100 ± 0.000 | **0.800 ± 0.000** |"));
  const std::vector<MethodScores> scores = mean_scores(uneven());
  ASSERT_EQ(scores.at(1).method, "random-cosine");
  EXPECT_EQ(scores[1].scores.front().text, "31.0") << "as the tables say";
  StitchResults apart = close_race();
  std::erase_if(apart.measurements, [](const Measurement& m) { return m.zero_shot() && m.method == "random-cosine"; });
  apart.measurements.push_back(measured("random-cosine", "x_1", "y&", 0, 0.7));
  EXPECT_EQ(std::string::npos, markdown_tables(apart).find("| F1 |")) << "nothing is common to both";
}

TEST(Tables, CallNothingBestWhereSeedsDiffer) {
  const std::string text = markdown_tables(uneven());
  const std::size_t start = text.find("| x_1 | y& |");
  ASSERT_NE(start, std::string::npos);
  const std::string row = text.substr(start, text.find('\n', start) - start);
  EXPECT_THAT(row, HasSubstr("91.0 ± 2.5"));
  EXPECT_EQ(std::string::npos, row.find("**"));
}

TEST(Tables, AreTheSameInTheFileThatTheReportReads) {
  const StitchResults results = resampled(two_encoders(), 0.01, 0.01);
  const auto file = nlohmann::json::parse(tables_json(results));
  EXPECT_EQ(file.at("records"), results.measurements.size());
  std::size_t cells = 0;
  const std::string text = markdown_tables(results);
  for (const auto& table : file.at("tables")) {
    for (const auto& row : table.at("rows")) {
      std::string line = "|";
      for (const std::string label : row.at("labels")) line += " " + label + " |";
      for (const auto& cell : row.at("cells")) {
        const std::string shown =
            cell.is_null() ? "–" : cell.at("text").get<std::string>() + " ± " + cell.at("noise").get<std::string>();
        line += !cell.is_null() && cell.at("best") ? " **" + shown + "** |" : " " + shown + " |";
        ++cells;
      }
      EXPECT_THAT(text, HasSubstr(line + "\n"));
    }
  }
  EXPECT_GT(cells, 30U);
}

TEST(MeanScores, AreTakenOverZeroShotPairsOnly) {
  const std::vector<MethodScores> scores = mean_scores(two_encoders());
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_EQ(scores[0].method, "absolute");
  EXPECT_NEAR(scores[0].scores.front().mean, 95, 1e-9);
  EXPECT_NEAR(scores[2].scores.front().mean, 91, 1e-9);
  EXPECT_NEAR(*scores[2].scores.front().std, 1, 1e-9);
}

}  // namespace
}  // namespace kedge
