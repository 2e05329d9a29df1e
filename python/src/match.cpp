// SPDX-License-Identifier: Apache-2.0
#include <kedge/match.h>

#include "arrays.h"
#include "handles.h"
#include "inputs.h"
#include "options.h"
#include "work.h"

#include <fmt/format.h>

namespace kedge::python {
namespace {

using namespace nb::literals;
using PairsView = nb::ndarray<nb::numpy, const std::int64_t, nb::shape<-1, 2>>;

/// What Python calls a Match.
struct MatchHandle {
  std::shared_ptr<const Match> match;
};

MatchHandle match_rows(const nb::object& first, const nb::object& second, const nb::object& pairs,
                       const nb::object& disjoint, const nb::object& force, const nb::object& runs,
                       const nb::object& seed, const nb::object& progress) {
  MatchOptions options;
  nb::dict values;
  values["disjoint"] = disjoint;
  values["force"] = force;
  values["runs"] = runs;
  values["seed"] = seed;
  set_options(options_of(options), values);
  const Input one(first, "first", "the first array"), other(second, "second", "the second array");
  if (!pairs.is_none()) options.pairs = to_pairs(pairs, 2, "a row number of each space");
  MatchHandle found = run(progress, !one.is_file() && !other.is_file(), [&](const Progress& report) {
    return MatchHandle{
        std::make_shared<const Match>(match({"first", one.rows()}, {"second", other.rows()}, options, report))};
  });
  warn_of(found.match->warnings, 2);
  if (!is_success(found.match->verdict)) warn(describe(*found.match), 2);
  return found;
}

nb::object kept_back(const MatchHandle& self) {
  const std::optional<KeptBack>& kept = self.match->kept_back;
  if (!kept) return nb::none();
  nb::dict found;
  found["pairs"] = kept->pairs;
  found["found_before"] = kept->found_before;
  found["found_after"] = kept->found_after;
  found["mrr_before"] = kept->mrr_before;
  found["mrr_after"] = kept->mrr_after;
  return found;
}

constexpr const char* kMatchText =
    R"(Find which rows of two spaces embed the same input, with a few known pairs or none.

Parameters
----------
first, second : array or path
    Embeddings by two encoders, in any order.
pairs : array of int or path, optional
    Rows that are known to belong together: two columns of row numbers. Five help; of 10 or more, some are kept back to
    judge the result by.
disjoint : bool
    Whether the spaces hold different inputs: look for the rotation between them, and for no pairs.
force : bool
    Whether to give the pairs found even if the verdict is against them.
runs : int
    How often to try at most; two runs that agree end the search.
seed : int
    Same seed, same pairs.
progress : bool or callable
    As for fit.

Returns
-------
Match
    Its pairs are as fit takes them. A warning says so if the verdict is against them.

Raises
------
ValueError
    For fewer than 200 rows of a space (100 with ten pairs), rows that are all the same, NaN or infinity, and pairs
    that are not there or name a row twice.
)";

}  // namespace

void bind_match(nb::module_& module) {
  nb::class_<MatchHandle>(module, "Match",
                          "Which rows of two spaces embed the same input, and whether that is to be "
                          "trusted. Made by match.")
      .def_prop_ro(
          "verdict", [](const MatchHandle& self) { return std::string(to_string(self.match->verdict)); },
          "'matched'; 'disjoint' if the rotation can be trusted, but the spaces hold different inputs; 'not-matched'; "
          "or 'made-worse' if the known pairs alone are better.")
      .def_prop_ro(
          "trusted", [](const MatchHandle& self) { return is_success(self.match->verdict); },
          "Whether pairs or rotation are good for use: matched or disjoint.")
      .def_prop_ro(
          "sentence", [](const MatchHandle& self) { return describe(*self.match); },
          "The verdict with the numbers behind it.")
      .def_prop_ro(
          "pairs",
          [](const MatchHandle& self) {
            return PairsView(self.match->pairs.data(), {self.match->pairs.size() / 2, 2}, keep(self.match));
          },
          nb::rv_policy::automatic,
          "Row numbers of the first space and of the second, one pair in each row, surest first: rows that are each "
          "other's nearest. None but the known ones if the verdict is made-worse. A read-only view.")
      .def_prop_ro(
          "chances", [](const MatchHandle& self) { return view_of(self.match->chances, self.match); },
          nb::rv_policy::automatic, "How likely each pair is right, 0 to 1.")
      .def_prop_ro(
          "agreement", [](const MatchHandle& self) { return self.match->agreement; },
          "Share of rows that two independent runs send to the same row.")
      .def_prop_ro(
          "mutual", [](const MatchHandle& self) { return self.match->mutual; },
          "Share of rows that are the nearest of their nearest.")
      .def_prop_ro(
          "runs", [](const MatchHandle& self) { return self.match->runs; }, "How many were made.")
      .def_prop_ro("kept_back", &kept_back,
                   "How known pairs that took no part are found: 'pairs', how many these are; the share that comes "
                   "first by the other known pairs alone, 'found_before', and matched, 'found_after'; 'mrr_before' and "
                   "'mrr_after'. None if too few are known.")
      .def_prop_ro(
          "rotation",
          [](const MatchHandle& self) {
            const SpaceRotation& rotation = self.match->rotation;
            return std::pair(
                view_of(rotation.weight, self.match),
                std::pair(view_of(rotation.first_mean, self.match), view_of(rotation.second_mean, self.match)));
          },
          nb::rv_policy::automatic,
          "(weight, (first_mean, second_mean)): a row x of the first space goes to weight (x - first_mean) + "
          "second_mean in the second.")
      .def("__repr__", [](const MatchHandle& self) {
        return fmt::format("<kedge.Match of {} pairs, {}>", self.match->pairs.size() / 2, describe(*self.match));
      });
  const MatchOptions defaults;
  module.def("match", &match_rows, "first"_a, "second"_a, "pairs"_a = nb::none(), nb::kw_only(),
             "disjoint"_a = defaults.disjoint, "force"_a = defaults.force, "runs"_a = defaults.runs,
             "seed"_a = defaults.seed, "progress"_a = false, kMatchText);
}

}  // namespace kedge::python
