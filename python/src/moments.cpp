// SPDX-License-Identifier: Apache-2.0
#include <kedge/moments.h>

#include "arrays.h"
#include "handles.h"
#include "inputs.h"
#include "text.h"
#include "work.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/draw.h>
#include <kedge/error.h>

#include <algorithm>
#include <new>
#include <optional>
#include <tuple>
#include <utility>

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

SupportDraw draw_of(const nb::object& support, std::uint64_t seed) {
  const nb::object found = nb::module_::import_("kedge._inputs").attr("draw_of")(support);
  const auto [count, ids] = nb::cast<std::pair<std::size_t, std::optional<Integers>>>(found);
  if (ids) return SupportDraw(to_vector(*ids));
  return count == 0 ? SupportDraw() : SupportDraw(count, seed);
}

/// `change` hands the moments, and how to report, to a function that adds to them.
template <class Change>
void add_rows(const Change& change, const nb::object& spaces, const nb::object& rows, const nb::object& ids,
              const nb::object& progress) {
  const nb::list named = nb::cast<nb::list>(nb::module_::import_("kedge._fit").attr("named_spaces")(spaces));
  const Inputs inputs(named);
  const RowChoice chosen = to_rows(rows);
  const std::vector<std::int64_t> numbers = to_ids(ids);
  run(progress, !inputs.any_file(), [&](const Progress& report) {
    change([&](Moments& moments,
               const Progress& told) { add_moments(moments, inputs.spaces(chosen), numbers, Device::cpu, told); },
           report);
  });
}

void begin(MomentsHandle* self, const nb::object& spaces, const nb::object& rows, const nb::object& ids,
           const nb::object& support, std::uint64_t seed, const nb::object& progress) {
  Moments moments(draw_of(support, seed));
  if (!spaces.is_none()) {
    add_rows([&](const auto& work, const Progress& report) { work(moments, report); }, spaces, rows, ids, progress);
  }
  new (self) MomentsHandle(std::move(moments));
}

void add(MomentsHandle& self, const nb::object& spaces, const nb::object& rows, const nb::object& ids,
         const nb::object& progress) {
  const auto change = [&](const auto& work, const Progress& report) {
    self.change_without_gil([&](Moments& moments) { work(moments, self.reporting(report)); });
  };
  add_rows(change, spaces, rows, ids, progress);
}

void merge(MomentsHandle& self, const MomentsHandle& other) {
  if (&self == &other) return merge(self, MomentsHandle(other));
  self.change_with(other, [](Moments& own, const Moments& added) { own.merge(added); });
}

MomentsHandle sum(const MomentsHandle& a, const MomentsHandle& b) {
  MomentsHandle both = a;
  merge(both, b);
  return both;
}

nb::dict spaces_of(const MomentsHandle& self) {
  nb::dict spaces;
  for (const Moments::Part& part : self.read([](const Moments& held) { return held.parts(); })) {
    spaces[nb::cast(part.space)] = part.dim;
  }
  return spaces;
}

Vector mean_of(const MomentsHandle& self, const std::string& space) {
  const std::vector<double> mean = self.read([&](const Moments& held) {
    const auto own = held.mean(space);
    return std::vector<double>(own.begin(), own.end());
  });
  nb::capsule owner;
  double* values = copy_of(mean, owner);
  return {values, {mean.size()}, owner};
}

/// Of one space, or of the values of two with each other.
Square covariance_of(const MomentsHandle& self, const std::string& space, const std::optional<std::string>& other) {
  std::vector<std::string> names{space};
  if (other && *other != space) names.push_back(*other);
  const Moments own = self.read([&](const Moments& held) { return held.of(names); });
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

nb::object support_ids_of(const MomentsHandle& self) {
  return make_integers(self.read([](const Moments& held) { return held.support().ids(); }));
}

FloatMatrix support_of(const MomentsHandle& self, const std::string& space) {
  const Matrix rows = self.read([&](const Moments& held) { return held.support_rows(space); });
  FloatMatrix copy = make_matrix(rows.rows(), rows.cols());
  std::ranges::copy(rows.cells(), copy.data());
  return copy;
}

std::string describe(const MomentsHandle& self) {
  return self.read([](const Moments& held) {
    std::vector<std::string> parts;
    for (const Moments::Part& part : held.parts()) parts.push_back(fmt::format("{} ({})", part.space, part.dim));
    return fmt::format("<kedge.Moments: {} rows of {}{}>", held.rows(),
                       parts.empty() ? "no space" : fmt::format("{}", fmt::join(parts, ", ")),
                       held.support().keeps_rows() ? fmt::format(", {} support rows", held.support().size()) : "");
  });
}

/// Written into the bytes object itself, since moments may be as large as memory allows.
nb::object to_bytes(const MomentsHandle& self) {
  nb::object bytes;
  self.read([&](const Moments& held) {
    moments_to_bytes(held, [&](std::size_t size) {
      const nb::gil_scoped_acquire with_gil;
      bytes = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
      if (!bytes.is_valid()) throw std::bad_alloc();
      return PyBytes_AsString(bytes.ptr());
    });
  });
  return bytes;
}

/// Of moments of no space only the draw is known, which a file does not hold.
nb::object state_of(const MomentsHandle& self) {
  const auto [none, draw] =
      self.read([](const Moments& held) { return std::pair(held.parts().empty(), held.support().without_rows()); });
  if (!none) return to_bytes(self);
  return nb::make_tuple(draw.wanted().empty() ? draw.count() : 0, draw.seed(),
                        make_integers({draw.wanted().begin(), draw.wanted().end()}));
}

void set_state(MomentsHandle& self, const nb::object& state) {
  if (nb::isinstance<nb::bytes>(state)) {
    const auto bytes = nb::cast<nb::bytes>(state);
    const std::string_view text(bytes.c_str(), bytes.size());
    if (text.empty()) {
      new (&self) MomentsHandle();
      return;
    }
    const nb::gil_scoped_release without_gil;
    new (&self) MomentsHandle(moments_from_bytes(text, "the pickled moments"));
    return;
  }
  const auto [count, seed, wanted] = nb::cast<std::tuple<std::size_t, std::uint64_t, Integers>>(state);
  SupportDraw draw;
  if (wanted.shape(0) != 0) draw = SupportDraw(to_vector(wanted));
  if (count != 0) draw = SupportDraw(count, seed);
  new (&self) MomentsHandle(Moments(std::move(draw)));
}

constexpr const char* kText =
    R"(What a fit needs to know of rows it does not keep: joint counts, means and second moments of one or more spaces.
With `support`, also the support rows, drawn by the ids of the rows.

Sum up parts of the rows wherever they are, add the parts in any order, and fit from the sum:

>>> parts = [kedge.Moments({"a": A, "b": B}, ids=ids, support=5000) for A, B, ids in shards]
>>> bundle = kedge.fit(moments=sum(parts))
>>> bundle.attach("c", moments=kedge.Moments({"c": C}, ids=ids, support=bundle.support_ids))

Parameters
----------
spaces : dict, optional
    As for fit: rows to begin with. Without it there are none yet.
rows : slice, (first, end), 'first:end', array of row numbers or mask, optional
    Which rows to add; all by default.
ids : array of int or list of str, optional
    An id for each row of the arrays or files; needed where `support` is given. No two rows may have the same.
support : int or array of int, optional
    How many support rows to draw: the same ones whatever the order and the parts of the rows. Or the ids of the rows to
    keep, in their order, as in bundle.support_ids. By default none are kept.
seed : int
    Draws other support rows.
progress : bool or callable
    As for fit.
)";

}  // namespace

void bind_moments(nb::module_& module) {
  nb::class_<MomentsHandle>(module, "Moments", kText)
      .def("__init__", &begin, "spaces"_a = nb::none(), nb::kw_only(), "rows"_a = nb::none(), "ids"_a = nb::none(),
           "support"_a = nb::none(), "seed"_a = 0, "progress"_a = false)
      .def("add", &add, "spaces"_a, nb::kw_only(), "rows"_a = nb::none(), "ids"_a = nb::none(), "progress"_a = false,
           "Add parallel rows of the same spaces, and their ids if support rows are kept.")
      .def("merge", &merge, "other"_a,
           "Add the moments of other rows of the same spaces. Raises ValueError for an id that both have.")
      .def("__add__", &sum, "other"_a, nb::is_operator())
      .def(
          "__radd__",
          [](const MomentsHandle& self, int start) -> nb::object {  // what sum() starts from
            if (start != 0) return nb::not_implemented();
            return nb::cast(self);
          },
          "other"_a, nb::is_operator())
      .def_prop_ro(
          "rows", [](const MomentsHandle& self) { return self.read([](const Moments& held) { return held.rows(); }); },
          "How many rows there are.")
      .def_prop_ro("spaces", &spaces_of, "The number of values of every space by its name.")
      .def_prop_ro("support_ids", &support_ids_of,
                   "The ids of the support rows so far, in their order; of given ids, those found.")
      .def("support", &support_of, "space"_a, "The support rows of one space, in the order of support_ids.")
      .def("mean", &mean_of, "space"_a, "The mean of one space, in float64.")
      .def("covariance", &covariance_of, "space"_a, "other"_a = nb::none(),
           "The covariance of one space, or of its values with those of another, in float64.")
      .def(
          "save",
          [](const MomentsHandle& self, nb::handle path, bool in_place) {
            const std::string to = path_of(path);
            self.read([&](const Moments& held) { save_moments(held, to, in_place); });
          },
          "path"_a, nb::kw_only(), "in_place"_a = false,
          "Write the file that 'kedge moments' writes. Replaces only moments, unless in_place.")
      .def_static(
          "load",
          [](nb::handle path) {
            const std::string from = path_of(path);
            const nb::gil_scoped_release without_gil;
            return MomentsHandle(load_moments(from));
          },
          "path"_a, "Read a file of moments. Raises OSError for anything else.")
      .def("__repr__", &describe)
      .def("__copy__", [](const MomentsHandle& self) { return self; })
      .def(
          "__deepcopy__", [](const MomentsHandle& self, const nb::dict&) { return self; }, "memo"_a)
      .def("__getstate__", &state_of)
      .def("__setstate__", &set_state);
}

}  // namespace kedge::python
