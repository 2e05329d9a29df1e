// SPDX-License-Identifier: Apache-2.0
#include <kedge/lab.h>

#include "handles.h"
#include "inputs.h"
#include "options.h"
#include "work.h"

#include <fmt/format.h>

#include <algorithm>

namespace kedge::python {
namespace {

using namespace nb::literals;

/// What the Python side has gathered; every key is there.
StitchOptions options_from(const nb::dict& plan) {
  StitchOptions options;
  FitArguments fit;
  set_options(options_of(fit), plan["fit"]);
  if (!plan["support_ids"].is_none()) fit.support_ids = to_vector(nb::cast<Integers>(plan["support_ids"]));
  require_device(fit.device);
  const nb::dict swept = plan["swept"];
  options.points = sweep_points(fit, nb::cast<std::vector<std::size_t>>(swept["anchors"]),
                                nb::cast<std::vector<std::size_t>>(swept["support"]),
                                nb::cast<std::vector<std::string>>(swept["shrinkage"]));
  options.methods = parse_stitch_methods(nb::cast<std::vector<std::string>>(plan["methods"]),
                                         nb::cast<std::vector<std::string>>(plan["similarities"]));
  options.seeds = nb::cast<std::vector<std::uint64_t>>(plan["seeds"]);
  options.hold_out = nb::cast<std::vector<std::string>>(plan["hold_out"]);
  set_options(options_of(options.head), plan["head"]);
  options.samples = nb::cast<std::size_t>(plan["samples"]);
  options.figures = nb::cast<bool>(plan["figures"]);
  options.bundle_folder = nb::cast<std::string>(plan["bundle_folder"]);
  return options;
}

/// A sweep over anchors and support may meet combinations that cannot be; the others are still wanted.
void warn_of_impossible(StitchOptions& options, const Inputs& inputs, const RowChoice& train) {
  const std::vector<Space> spaces = inputs.spaces();
  if (spaces.empty()) return;
  const std::size_t end = std::min(train.range.end, spaces.front().rows());
  const std::size_t ids = train.ids.ids.size();
  const std::size_t rows = ids > 0 ? ids : end - std::min(train.range.begin, end);
  options = with_defaults(std::move(options), rows);
  for (const FitArguments& point : leave_out_impossible(options.points, rows)) {
    const std::string text =
        fmt::format("{} anchors need at least as many support rows, so they are skipped with a support of {}",
                    point.anchors.value(), point.support.value());
    warn(text, 4);
  }
}

std::string stitch_spaces(const nb::list& given, const nb::object& train, const nb::object& test,
                          const std::optional<Integers>& labels, const nb::object& targets,
                          const std::vector<std::size_t>& target_shape, const nb::dict& plan,
                          const std::optional<std::string>& folder, bool fresh, const nb::object& progress) {
  StitchOptions options = options_from(plan);
  const Inputs inputs(given);
  std::optional<Input> decoded;
  if (!targets.is_none()) decoded.emplace(targets, "targets", "the array");
  const RowChoice train_rows = to_rows(train, "train");
  const RowChoice test_rows = to_rows(test, "test");
  if (nb::cast<bool>(plan["sweep"])) warn_of_impossible(options, inputs, train_rows);
  const bool only_arrays = !inputs.any_file() && !(decoded && decoded->is_file());
  StitchData data;
  std::vector<std::string> warnings, notes;
  const std::string records = run(progress, only_arrays && !folder, [&](const Progress& report) {
    data = StitchData{inputs.spaces(), train_rows.range, test_rows.range, train_rows.ids, test_rows.ids, {}, {},
                      target_shape};
    if (labels) data.labels = to_vector(*labels);
    if (decoded) data.targets = decoded->rows();
    const StitchResults results =
        folder ? stitch_into(*folder, data, options, fresh, report) : stitch(data, options, {}, report);
    warnings = warnings_of_train_rows(data);
    notes = anchor_notes(results);
    return records_json(results);
  });
  warn_of(warnings, 4);
  const bool asked =
      std::ranges::any_of(options.points, [](const FitArguments& point) { return point.anchors.has_value(); });
  if (asked) warn_of(notes, 4);
  return records;
}

}  // namespace

void bind_stitch(nb::module_& module) {
  module.attr("STITCH_METHODS") = nb::cast(std::vector<std::string>(kStitchMethods.begin(), kStitchMethods.end()));
  module.attr("SWEEP_METHODS") = nb::cast(std::vector<std::string>(kSweepMethods.begin(), kSweepMethods.end()));
  module.attr("STITCH_SAMPLES") = StitchOptions().samples;
  module.def("stitch", &stitch_spaces, "spaces"_a, "train"_a, "test"_a, "labels"_a.none(), "targets"_a.none(),
             "target_shape"_a, "plan"_a, "folder"_a.none(), "fresh"_a, "progress"_a.none());
}

}  // namespace kedge::python
