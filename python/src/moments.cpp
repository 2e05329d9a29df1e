// SPDX-License-Identifier: Apache-2.0
#include <kedge/moments.h>

#include "handles.h"
#include "inputs.h"
#include "text.h"
#include "work.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/error.h>

#include <algorithm>

namespace kedge::python {
namespace {

using namespace nb::literals;
using Vector = nb::ndarray<nb::numpy, double, nb::ndim<1>>;
using Square = nb::ndarray<nb::numpy, double, nb::ndim<2>>;

double* copy_of(std::span<const double> values, nb::capsule& owner) {
  auto* copy = new double[std::max<std::size_t>(1, values.size())];
  std::ranges::copy(values, copy);
  owner = nb::capsule(copy, [](void* held) noexcept { delete[] static_cast<double*>(held); });
  return copy;
}

void add(MomentsHandle& self, const nb::object& spaces, const nb::object& rows, const nb::object& progress) {
  const nb::list named = nb::cast<nb::list>(nb::module_::import_("kedge._fit").attr("named_spaces")(spaces));
  const Inputs inputs(named);
  const RowChoice chosen = to_rows(rows);
  const Moments part = run(progress, !inputs.any_file(),
                           [&](const Progress& report) { return sum_moments(inputs.spaces(chosen), report); });
  self.moments.merge(part);
}

MomentsHandle sum(const MomentsHandle& a, const MomentsHandle& b) {
  MomentsHandle both = a;
  both.moments.merge(b.moments);
  return both;
}

nb::dict spaces_of(const MomentsHandle& self) {
  nb::dict spaces;
  for (const Moments::Part& part : self.moments.parts()) spaces[nb::cast(part.space)] = part.dim;
  return spaces;
}

Vector mean_of(const MomentsHandle& self, const std::string& space) {
  const Moments own = self.moments.of(space);
  nb::capsule owner;
  double* values = copy_of(own.mean(), owner);
  return {values, {own.dim()}, owner};
}

/// Of one space, or of the values of two with each other.
Square covariance_of(const MomentsHandle& self, const std::string& space, const std::optional<std::string>& other) {
  std::vector<std::string> names{space};
  if (other && *other != space) names.push_back(*other);
  const Moments own = self.moments.of(names);
  const Matrix64 all = own.covariance();
  const std::size_t rows = own.parts().front().dim, cols = own.parts().back().dim;
  const std::size_t first = names.size() == 1 ? 0 : rows;
  std::vector<double> cells;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto part = all.row(r).subspan(first, cols);
    cells.insert(cells.end(), part.begin(), part.end());
  }
  nb::capsule owner;
  double* values = copy_of(cells, owner);
  return {values, {rows, cols}, owner};
}

std::string describe(const MomentsHandle& self) {
  std::vector<std::string> parts;
  for (const Moments::Part& part : self.moments.parts()) parts.push_back(fmt::format("{} ({})", part.space, part.dim));
  return fmt::format("<kedge.Moments: {} rows of {}>", self.moments.rows(),
                     parts.empty() ? "no space" : fmt::format("{}", fmt::join(parts, ", ")));
}

constexpr const char* kText =
    R"(What a fit needs to know of rows it does not keep: joint counts, means and second moments of one or more spaces.

Sum up parts of the rows wherever they are, add the parts in any order, and fit from the sum and the support rows:

>>> total = kedge.Moments({"a": A1, "b": B1}) + kedge.Moments({"a": A2, "b": B2})
>>> kedge.fit({"a": A_support, "b": B_support}, moments=total, support_rows=True, support_ids=ids)

Parameters
----------
spaces : dict, optional
    As for fit: rows to begin with. Without it there are none yet.
rows : slice, (first, end), 'first:end', array of row numbers or mask, optional
    Which rows to add; all by default.
progress : bool or callable
    As for fit.
)";

}  // namespace

void bind_moments(nb::module_& module) {
  nb::class_<MomentsHandle>(module, "Moments", kText)
      .def(
          "__init__",
          [](MomentsHandle* self, const nb::object& spaces, const nb::object& rows, const nb::object& progress) {
            new (self) MomentsHandle();
            if (!spaces.is_none()) add(*self, spaces, rows, progress);
          },
          "spaces"_a = nb::none(), nb::kw_only(), "rows"_a = nb::none(), "progress"_a = false)
      .def("add", &add, "spaces"_a, nb::kw_only(), "rows"_a = nb::none(), "progress"_a = false,
           "Add parallel rows of the same spaces.")
      .def(
          "merge", [](MomentsHandle& self, const MomentsHandle& other) { self.moments.merge(other.moments); },
          "other"_a, "Add the moments of other rows of the same spaces.")
      .def("__add__", &sum, "other"_a, nb::is_operator())
      .def(
          "__radd__",
          [](const MomentsHandle& self, int start) -> nb::object {  // what sum() starts from
            if (start != 0) return nb::not_implemented();
            return nb::cast(self);
          },
          "other"_a, nb::is_operator())
      .def_prop_ro(
          "rows", [](const MomentsHandle& self) { return self.moments.rows(); }, "How many rows there are.")
      .def_prop_ro("spaces", &spaces_of, "The number of values of every space by its name.")
      .def("mean", &mean_of, "space"_a, "The mean of one space, in float64.")
      .def("covariance", &covariance_of, "space"_a, "other"_a = nb::none(),
           "The covariance of one space, or of its values with those of another, in float64.")
      .def(
          "save",
          [](const MomentsHandle& self, nb::handle path, bool in_place) {
            const Moments held = self.moments;  // another thread may add to them meanwhile
            const std::string to = path_of(path);
            const nb::gil_scoped_release without_gil;
            save_moments(held, to, in_place);
          },
          "path"_a, nb::kw_only(), "in_place"_a = false,
          "Write the file that 'kedge moments' writes. Replaces only moments, unless in_place.")
      .def_static(
          "load",
          [](nb::handle path) {
            const std::string from = path_of(path);
            const nb::gil_scoped_release without_gil;
            return MomentsHandle{load_moments(from)};
          },
          "path"_a, "Read a file of moments. Raises OSError for anything else.")
      .def("__repr__", &describe)
      .def("__copy__", [](const MomentsHandle& self) { return self; })
      .def(
          "__deepcopy__", [](const MomentsHandle& self, const nb::dict&) { return self; }, "memo"_a)
      .def("__getstate__",
           [](const MomentsHandle& self) {
             const std::string bytes = self.moments.parts().empty() ? "" : moments_to_bytes(self.moments);
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def("__setstate__", [](MomentsHandle& self, const nb::bytes& bytes) {
        new (&self) MomentsHandle();
        if (bytes.size() != 0) {
          self.moments = moments_from_bytes({bytes.c_str(), bytes.size()}, "the pickled moments");
        }
      });
}

}  // namespace kedge::python
