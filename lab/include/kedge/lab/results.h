// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/lab/stitch.h>

#include <optional>
#include <string>
#include <vector>

namespace kedge {

/// The records of results.json: a JSON array with one object for each measurement.
[[nodiscard]] std::string records_json(const StitchResults& results);
/// Writes results.json, results.csv, figures.json and tables.json, .md and .tex into a folder, each whole or not at
/// all.
void save_results(const StitchResults& results, const std::string& folder);
/// Nothing if the folder has no results yet. Throws Error(Code::bad_file) for a damaged results.json.
[[nodiscard]] StitchResults load_results(const std::string& folder);

/// stitch() with its results in a folder, which it makes. Continues from results there unless `fresh`; saves now and
/// then and at the end, also after an error. Throws what stitch() and load_results() throw; Error(Code::failed)
/// while another process does the same there; Error(Code::bad_argument) for results that would replace a space.
[[nodiscard]] StitchResults stitch_into(const std::string& folder, const StitchData& data, const StitchOptions& options,
                                        bool fresh = false, const Progress& progress = {},
                                        const StitchObserver& observer = {});

/// The mean of a metric over the zero-shot pairs that all methods have (for absolute, over its own heads) and over
/// seeds, with the standard deviation between seeds if there are several. Shares are in %.
struct MeanScore {
  std::string metric;
  double mean = 0;
  std::optional<double> std;
  std::optional<double> noise;  ///< half of the 95 % interval, from resampled test rows and seeds; none if unknown
  std::string text;             ///< the mean as tables show it
  int digits = 1;               ///< worth showing after the point
};
struct MethodScores {
  std::string method;
  StitchPoint point;
  std::vector<MeanScore> scores;
};
/// By method and point of a sweep.
[[nodiscard]] std::vector<MethodScores> mean_scores(const StitchResults& results);

/// A sentence for each method with undertrained mlps: clearly below logistic regression on the same features.
[[nodiscard]] std::vector<std::string> head_warnings(const StitchResults& results);
/// A sentence for each method and point with fewer anchors than were asked for.
[[nodiscard]] std::vector<std::string> anchor_notes(const StitchResults& results);
/// Both of these.
[[nodiscard]] std::vector<std::string> warnings_of(const StitchResults& results);

/// The paper's tables: the mean and half of its 95 % interval; bold is what is better than all others beyond noise.
[[nodiscard]] std::string markdown_tables(const StitchResults& results);
[[nodiscard]] std::string latex_tables(const StitchResults& results);

}  // namespace kedge
