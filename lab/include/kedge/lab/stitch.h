// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/fit.h>
#include <kedge/lab/head.h>
#include <kedge/metrics.h>
#include <kedge/options/lists.h>
#include <kedge/progress.h>
#include <kedge/row_check.h>
#include <kedge/space.h>

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kedge {

/// A way to make features that heads are trained on. By name: `absolute`, or anchors and similarity such as
/// `random-cosine`, `kmeans-wip`, `param-single`, `consensus` (wip unless said), with `-ridge` or `-kernel` at the end
/// for maps made that way instead of the method's own. `param-multi` and `param` learn from all sources, `param-single`
/// from one; `ridge` has no anchors: each held-out encoder is regressed on each source, the plain thing to compare
/// with.
struct StitchMethod {
  enum class Anchors { absolute, random, kmeans, fps, param_single, param_multi, consensus, ridge };
  Anchors anchors = Anchors::param_multi;
  Similarity similarity = Similarity::wip;
  std::optional<AttachBy> by = {};  ///< ridge or kernel; none: as the effort says, or the default of the anchors

  friend bool operator==(const StitchMethod&, const StitchMethod&) = default;
};
/// `consensus` has no "-ridge" in its name, because that is its default.
[[nodiscard]] std::string to_string(const StitchMethod& method);
/// A name without similarity gets `otherwise`. Throws Error(Code::bad_argument), which lists what can be given.
[[nodiscard]] StitchMethod parse_stitch_method(std::string_view name, Similarity otherwise = Similarity::wip);
/// The methods of a list of names, in order, without blanks or repetitions. A name without similarity stands for one
/// method for each of `similarities`, if any. Throws as parsing one name and one similarity does.
[[nodiscard]] std::vector<StitchMethod> parse_stitch_methods(std::span<const std::string> names,
                                                             std::span<const std::string> similarities = {});
/// The default methods.
inline constexpr std::array<std::string_view, 5> kStitchMethods = {"absolute", "random-cosine", "param-single",
                                                                   "param-multi", "consensus"};
inline constexpr std::array<std::string_view, 5> kSweepMethods = {"random-cosine", "random-wip", "param-cosine",
                                                                  "param-multi", "consensus"};

/// What is stitched: parallel spaces, which rows heads learn from and which they are judged on, and what they predict.
struct StitchData {
  std::vector<Space> spaces;  ///< all rows of the files
  RowRange train, test;
  RowIds train_ids, test_ids;                ///< if not empty, used instead of the ranges
  std::vector<std::int64_t> labels;          ///< of all rows; may be empty
  std::shared_ptr<const RowSource> targets;  ///< of all rows, e.g. pixels; may be null
  std::vector<std::size_t> target_shape;     ///< of one row as a picture, e.g. 28, 28; may be empty
};

struct StitchOptions {
  std::vector<StitchMethod> methods;
  std::vector<std::uint64_t> seeds = {0};
  /// All of them are run; they differ in anchors, support and shrinkage. The method is that of `methods`.
  std::vector<FitArguments> points = {FitArguments()};
  std::vector<std::string> hold_out;  ///< names of the spaces to be held out in turn; empty: all
  HeadOptions head;
  std::size_t samples = 10;   ///< test rows whose decoded targets are kept for the report
  std::string bundle_folder;  ///< if not empty, every bundle is saved there
  bool figures = true;        ///< whether to compute what only the report draws, also for known measurements
};

/// Fills in what follows from the effort and the methods together: how each method makes its maps, and the support that
/// all methods of a point share, which is larger if one of them makes maps by kernel. Each method is kept once. With
/// the best effort, for example, `consensus` becomes `consensus-kernel`.
[[nodiscard]] StitchOptions with_defaults(StitchOptions options, std::size_t train_rows);

/// The points of a sweep: every combination; `fit` gives all other options, and those of empty lists. Throws
/// Error(Code::bad_argument) for a shrinkage that is neither a number nor the name of a rule.
[[nodiscard]] std::vector<FitArguments> sweep_points(const FitArguments& fit, const std::vector<std::size_t>& anchors,
                                                     const std::vector<std::size_t>& supports,
                                                     const std::vector<std::string>& shrinkages);
/// Removes and returns the points with more anchors than support rows, with `support` set to the number there is. If
/// all points are such, it removes none, and stitch() refuses them.
std::vector<FitArguments> leave_out_impossible(std::vector<FitArguments>& points, std::size_t train_rows);

/// A point of a sweep; 0 and empty for absolute, which has none.
struct StitchPoint {
  std::size_t anchors = 0, support = 0;
  std::string shrinkage;  ///< a number, or the name of the rule that chooses it for each space

  friend auto operator<=>(const StitchPoint&, const StitchPoint&) = default;
};

/// One head on one encoder's test rows, or one pair of spaces if there is no head.
struct Measurement {
  std::string method, encoder, trained_on;
  std::uint64_t seed = 0;
  StitchPoint point;
  std::optional<Classification> labels;
  std::optional<Regression> targets;
  std::optional<Comparison> pair;  ///< of trained_on and encoder; none if they are the same
  std::optional<double> rr_std;    ///< of the encoder's features; none for absolute
  /// Weighted F1 of logistic regression instead of an mlp on its own encoder: an mlp clearly below it is undertrained.
  /// Only for the first seed and point.
  std::optional<double> linear_f1;
  /// The scores in each resample of the test rows, by their names in results.json; empty in old folders.
  std::map<std::string, std::vector<double>> resampled;

  [[nodiscard]] bool zero_shot() const { return encoder != trained_on; }
};

/// One fit.
struct StitchRun {
  std::string method;
  std::vector<std::string> sources;  ///< spaces that the anchors were learned from
  std::uint64_t seed = 0;
  StitchPoint point;
  std::size_t found_anchors = 0;  ///< fewer than the point's if the sources share fewer directions; 0 if unknown
  double seconds = 0;             ///< for fit, attach and heads; methods that share a fit each count it
  std::vector<Losses> history;
};

/// Everything that was measured, in the order of the plan, and the data of the report's figures.
struct StitchResults {
  std::string settings;  ///< JSON: what all measurements have in common
  std::vector<Measurement> measurements;
  std::vector<StitchRun> runs;
  std::string figures;  ///< JSON, see docs/results.md
};

/// What is reported after every run.
struct StitchEvent {
  const StitchResults& so_far;
  const StitchRun& run;
  std::span<const Measurement> measured;  ///< in this run; empty if it was run for a figure or a bundle alone
  std::size_t done = 0, total = 0;        ///< runs
  std::size_t known = 0;                  ///< measurements that were there before
};
using StitchObserver = std::function<void(const StitchEvent&)>;

/// The zero-shot protocol: holds every space out in turn, learns anchors on the others' train rows, trains a head on
/// each space's RR of the train rows and judges it on the held-out space's RR of the test rows. The held-out space
/// takes no part in learning anchors, and test rows only in judging. Defaults are filled in by with_defaults().
/// Independent runs use one thread each. Measurements and runs in `known` stay as they are, and are run again only for
/// missing figures or bundles.
/// Throws Error(Code::bad_argument) for data that do not fit together, and for known results of other settings.
[[nodiscard]] StitchResults stitch(const StitchData& data, const StitchOptions& options, StitchResults known = {},
                                   const Progress& progress = {}, const StitchObserver& observer = {});

/// Warnings about the train rows of the spaces, from check_rows().
[[nodiscard]] std::vector<std::string> warnings_of_train_rows(const StitchData& data);

}  // namespace kedge
