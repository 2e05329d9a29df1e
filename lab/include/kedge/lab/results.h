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
/// Nothing where the folder has no results yet. Throws Error(Code::bad_file) for a results.json it cannot trust.
[[nodiscard]] StitchResults load_results(const std::string& folder);

/// stitch() with its results in a folder, which is made: goes on with what is known there unless `fresh`, and saves
/// now and then and at the end, whatever ends it. Throws what stitch() and load_results() throw; Error(Code::failed)
/// while another process does the same there; Error(Code::bad_argument) for results that would replace a space.
[[nodiscard]] StitchResults stitch_into(const std::string& folder, const StitchData& data, const StitchOptions& options,
                                        bool fresh = false, const Progress& progress = {},
                                        const StitchObserver& observer = {});

/// A metric over the zero-shot pairs of a method that all methods have, or over its own heads for absolute: the mean
/// over seeds and, where there are several, their standard deviation. Shares are in %.
struct MeanScore {
  std::string metric;
  double mean = 0;
  std::optional<double> std;
  std::optional<double> noise;  ///< half of the 95 % interval, from resampled test rows and seeds; none if unknown
  std::string text;             ///< the mean as tables show it
  int digits = 1;               ///< after the point that are worth showing
};
struct MethodScores {
  std::string method;
  StitchPoint point;
  std::vector<MeanScore> scores;
};
/// By method and point of a sweep.
[[nodiscard]] std::vector<MethodScores> mean_scores(const StitchResults& results);

/// A sentence for each method some of whose own mlps are clearly below logistic regression on the same features.
[[nodiscard]] std::vector<std::string> head_warnings(const StitchResults& results);
/// A sentence for each method and point with fewer anchors than were asked for.
[[nodiscard]] std::vector<std::string> anchor_notes(const StitchResults& results);
/// Both: what a reader of the results should know.
[[nodiscard]] std::vector<std::string> warnings_of(const StitchResults& results);

/// The paper's tables: the mean and half of its 95 % interval; bold is what is better than all others beyond noise.
[[nodiscard]] std::string markdown_tables(const StitchResults& results);
[[nodiscard]] std::string latex_tables(const StitchResults& results);

}  // namespace kedge
