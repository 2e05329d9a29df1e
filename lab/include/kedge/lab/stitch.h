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
/// from one.
struct StitchMethod {
  enum class Anchors { absolute, random, kmeans, fps, param_single, param_multi, consensus };
  Anchors anchors = Anchors::param_multi;
  Similarity similarity = Similarity::wip;
  std::optional<AttachBy> by = {};  ///< ridge or kernel; none: as the effort says, or the anchors' own way

  friend bool operator==(const StitchMethod&, const StitchMethod&) = default;
};
/// Ridge is not part of the name of `consensus`, whose own way it is.
[[nodiscard]] std::string to_string(const StitchMethod& method);
/// Throws Error(Code::bad_argument) that says what can be given. A name without similarity gets `otherwise`.
[[nodiscard]] StitchMethod parse_stitch_method(std::string_view name, Similarity otherwise = Similarity::wip);
/// The methods of a list of names, with blanks around them or not, in their order and each once. A name without
/// similarity stands for one method for each of `similarities`, if any. Throws as for one name and one similarity.
[[nodiscard]] std::vector<StitchMethod> parse_stitch_methods(std::span<const std::string> names,
                                                             std::span<const std::string> similarities = {});
/// What is run unless something else is asked for.
inline constexpr std::array<std::string_view, 5> kStitchMethods = {"absolute", "random-cosine", "param-single",
                                                                   "param-multi", "consensus"};
inline constexpr std::array<std::string_view, 5> kSweepMethods = {"random-cosine", "random-wip", "param-cosine",
                                                                  "param-multi", "consensus"};

/// What is stitched: parallel spaces, which rows heads learn from and which they are judged on, and what they predict.
struct StitchData {
  std::vector<Space> spaces;  ///< all rows of the files
  RowRange train, test;
  RowIds train_ids, test_ids;                ///< where there are any, they count instead of the ranges
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
  std::string bundle_folder;  ///< where given, every bundle is saved there
  bool figures = true;        ///< whether to compute what only the report draws, of known measurements too
};

/// The options with all that follows from the effort and from the methods together: how each method makes its maps,
/// each method once, and the support that all methods of a point share, which is larger where one of them makes maps by
/// kernel. Under the best effort `consensus` thus becomes `consensus-kernel`.
[[nodiscard]] StitchOptions with_defaults(StitchOptions options, std::size_t train_rows);

/// The points of a sweep: every combination, with `fit` for all else and for what is empty. Throws
/// Error(Code::bad_argument) for a shrinkage that is neither a number nor the name of a rule.
[[nodiscard]] std::vector<FitArguments> sweep_points(const FitArguments& fit, const std::vector<std::size_t>& anchors,
                                                     const std::vector<std::size_t>& supports,
                                                     const std::vector<std::string>& shrinkages);
/// Takes out the points that need more support rows than there are, one for each anchor, and returns them, `support`
/// being the number there are; none where all are such, which is no matter of combinations.
std::vector<FitArguments> leave_out_impossible(std::vector<FitArguments>& points, std::size_t train_rows);

/// What a sweep runs over; all 0 and empty for absolute, which knows none of them.
struct StitchPoint {
  std::size_t anchors = 0, support = 0;
  std::string shrinkage;  ///< a number, or the name of the rule that chooses it for each space

  friend auto operator<=>(const StitchPoint&, const StitchPoint&) = default;
};

/// One head on one encoder's test rows, or one pair of spaces where there is no head.
struct Measurement {
  std::string method, encoder, trained_on;
  std::uint64_t seed = 0;
  StitchPoint point;
  std::optional<Classification> labels;
  std::optional<Regression> targets;
  std::optional<Comparison> pair;  ///< of trained_on and encoder; none where they are the same
  std::optional<double> rr_std;    ///< of the encoder's features; none for absolute
  /// Weighted F1 of logistic regression in the place of an mlp that is used on its own encoder: a head that is clearly
  /// below is undertrained. None elsewhere, and for all but the first seed and point.
  std::optional<double> linear_f1;
  /// The scores in each resample of the test rows, by their names in results.json; empty for those of an old folder.
  std::map<std::string, std::vector<double>> resampled;

  [[nodiscard]] bool zero_shot() const { return encoder != trained_on; }
};

/// One fit and what came of it.
struct StitchRun {
  std::string method;
  std::vector<std::string> sources;  ///< that the anchors were learned from
  std::uint64_t seed = 0;
  StitchPoint point;
  std::size_t found_anchors = 0;  ///< fewer than the point's where the sources share fewer directions; 0 if unknown
  double seconds = 0;             ///< of the fit, attaching and heads; methods that share a fit each count it
  std::vector<Losses> history;
};

/// Everything that was measured, in the order of the plan, and the data of the report's figures.
struct StitchResults {
  std::string settings;  ///< JSON: what all measurements have in common
  std::vector<Measurement> measurements;
  std::vector<StitchRun> runs;
  std::string figures;  ///< JSON, see docs/results.md
};

/// What there is to say after every run.
struct StitchEvent {
  const StitchResults& so_far;
  const StitchRun& run;
  std::span<const Measurement> measured;  ///< in this run; none where it was run for a figure or a bundle alone
  std::size_t done = 0, total = 0;        ///< runs
  std::size_t known = 0;                  ///< measurements that were there before
};
using StitchObserver = std::function<void(const StitchEvent&)>;

/// The zero-shot protocol: holds every space out in turn, learns anchors on the others' train rows, trains a head on
/// each space's RR of the train rows and judges it on the held-out space's RR of the test rows. The held-out space
/// takes no part in learning anchors, test rows take part in nothing but the judgement. The options are taken
/// with_defaults(). Runs that do not depend on
/// each other use one thread each. Measurements and runs in `known` stay as they are; of those, only what figures or
/// bundles lack is run again.
/// Throws Error(Code::bad_argument) for data that do not fit together, and for known results of other settings.
[[nodiscard]] StitchResults stitch(const StitchData& data, const StitchOptions& options, StitchResults known = {},
                                   const Progress& progress = {}, const StitchObserver& observer = {});

/// What is worth a warning about the train rows of the spaces, as check_rows() finds it.
[[nodiscard]] std::vector<std::string> warnings_of_train_rows(const StitchData& data);

}  // namespace kedge
