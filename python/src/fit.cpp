// SPDX-License-Identifier: Apache-2.0
#include <kedge/fit.h>

#include "handles.h"
#include "inputs.h"
#include "options.h"
#include "work.h"

#include <kedge/validate.h>

#include <fmt/format.h>

namespace kedge::python {
namespace {

using namespace nb::literals;

FitOptions read_options(const std::optional<Integers>& support_ids, const nb::dict& values) {
  FitArguments options;
  set_options(options_of(options), values);
  if (support_ids) options.support_ids = to_vector(*support_ids);
  require_own_options(options);
  require_device(options.device);
  return fit_options(options);
}

BundleHandle fit_spaces(const nb::list& spaces, const nb::object& rows, const std::optional<Integers>& support_ids,
                        const nb::object& progress, const nb::dict& values, const nb::object& known, bool support_rows,
                        const nb::object& ids, const nb::object& pairs) {
  FitRows given;
  if (!known.is_none()) {
    given.moments = nb::cast<const MomentsHandle&>(known).read([](const Moments& held) { return held; });
  }
  if (std::vector<std::int64_t> numbers = to_ids(ids); !numbers.empty()) given.ids = std::move(numbers);
  given.support_rows = support_rows;
  const FitOptions options = read_options(support_ids, values);
  const Inputs inputs(spaces);
  const RowChoice chosen = to_rows(rows);
  std::optional<std::vector<std::int64_t>> paired;
  if (!pairs.is_none()) paired = to_pairs(pairs, spaces.size(), "a row number of each space");
  BundleHandle made = run(progress, !inputs.any_file(), [&](const Progress& report) {
    given.spaces = inputs.spaces(chosen);
    if (paired) given.spaces = pair_rows(given.spaces, *paired);
    return BundleHandle{std::make_shared<const Bundle>(fit(read_input(given, options, report), options, report))};
  });
  warn_of(warnings_of_sources(*made.bundle), 3);
  if (options.anchors) warn(tell_of_fewer_anchors(*made.bundle, options), 3);
  remove_checkpoint(options);  // the bundle is the caller's now
  return made;
}

nb::list validate_spaces(const nb::list& given, const nb::object& rows, const nb::object& progress,
                         const nb::dict& values) {
  const FitOptions options = read_options(std::nullopt, values);
  const Inputs inputs(given);
  const RowChoice chosen = to_rows(rows);
  CompareOptions what;
  what.device = options.device;
  const std::vector<HeldOutScore> scores = run(progress, !inputs.any_file(), [&](const Progress& report) {
    return validate(inputs.spaces(chosen), options, what, report);
  });
  nb::list list;
  for (const HeldOutScore& score : scores) {
    nb::dict one;
    one["held_out"] = score.space;
    one["rows"] = score.rows;
    one["mrr"] = score.mrr;
    for (std::size_t i = 0; i < what.recall_at.size(); ++i) {
      one[nb::cast(fmt::format("recall@{}", what.recall_at[i]))] = score.recall[i];
    }
    one["nmse"] = score.nmse;
    list.append(one);
  }
  return list;
}

}  // namespace

void bind_fit(nb::module_& module) {
  module.def("fit", &fit_spaces, "spaces"_a, "rows"_a.none(), "support_ids"_a.none(), "progress"_a.none(), "options"_a,
             "moments"_a.none(), "support_rows"_a, "ids"_a.none(), "pairs"_a.none());
  module.def("validate", &validate_spaces, "spaces"_a, "rows"_a.none(), "progress"_a.none(), "options"_a);
}

}  // namespace kedge::python
