// SPDX-License-Identifier: Apache-2.0
#include "inputs.h"
#include "options.h"
#include "work.h"

#include <fmt/format.h>
#include <kedge/metrics.h>

namespace kedge::python {
namespace {

using namespace nb::literals;

nb::dict compare_rows(const nb::object& a, const nb::object& b, const nb::object& rows, const nb::object& recall_at,
                      const nb::object& neighbors, const nb::object& device, const nb::object& progress) {
  CompareOptions options;
  nb::dict values;
  values["recall_at"] = recall_at;
  values["neighbors"] = neighbors;
  values["device"] = device;
  set_options(options_of(options), values);
  require_device(options.device);
  const Input first(a, "A", "A");
  const Input second(b, "B", "B");
  const RowChoice chosen = to_rows(rows);
  const Comparison result = run(progress, !first.is_file() && !second.is_file(), [&](const Progress& report) {
    const Floats x(first, chosen.of("A", first.rows()));
    const Floats y(second, chosen.of("B", second.rows()));
    return compare(x.view(), y.view(), options, report);
  });
  nb::dict scores;
  scores["rows"] = result.rows;
  scores["dim"] = result.dim;
  for (const auto& [name, value] : named_scores(result, options)) {
    scores[nb::cast(name)] = value ? nb::cast(*value) : nb::none();
  }
  return scores;
}

constexpr const char* kCompareText =
    R"(Measure how well two encoders agree in the shared space: does row i of A find row i of B?

Parameters
----------
A, B : array or path
    Rows of the same inputs in the same order, of the same dimension.
rows : slice, (first, end), 'first:end', array of row numbers or mask, optional
    Rows to compare; all by default.
recall_at : list of int
    Ranks to report recall at.
neighbors : int
    Neighbours to count for the k-NN overlap.
device : str
    Where to compute ranks.
progress : bool or callable
    As for fit.

Returns
-------
dict
    rows, dim, mrr, recall@K for each K of recall_at, nmse, rr_std_a, rr_std_b, paired_cosine, linear_cka, svcca,
    effective_rank_a, effective_rank_b and knn_overlap@neighbors (None if it cannot be measured).
)";

}  // namespace

void bind_compare(nb::module_& module) {
  const CompareOptions defaults;
  module.def("compare", &compare_rows, "A"_a, "B"_a, nb::kw_only(), "rows"_a = nb::none(),
             "recall_at"_a = defaults.recall_at, "neighbors"_a = defaults.neighbors,
             "device"_a = std::string(to_string(defaults.device)), "progress"_a = false, kCompareText);
}

}  // namespace kedge::python
