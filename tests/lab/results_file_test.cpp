// SPDX-License-Identifier: Apache-2.0
#include "lab/made_up_results.h"
#include "support.h"

#include <gtest/gtest.h>
#include <kedge/lab/results.h>

namespace kedge {
namespace {

using test::resampled;
using test::two_encoders;
using ::testing::HasSubstr;

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
