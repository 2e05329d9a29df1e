// SPDX-License-Identifier: Apache-2.0
#include <kedge/likeness.h>

#include "arrays.h"
#include "handles.h"
#include "inputs.h"
#include "work.h"

#include <kedge/error.h>

#include <algorithm>
#include <memory>
#include <new>

namespace kedge::python {
namespace {

using namespace nb::literals;

/// What Python calls a Likeness.
struct LikenessHandle {
  std::shared_ptr<const Likeness> likeness;
};

Moments moments_of(const nb::object& known) {
  if (nb::isinstance<MomentsHandle>(known)) {
    return nb::cast<const MomentsHandle&>(known).read([](const Moments& held) {
      if (held.parts().size() == 1) return held;
      throw Error(Code::bad_argument,
                  "the moments are of several spaces or of none; a likeness is that of one model, so sum up one space");
    });
  }
  const Input input(known, "known", "the known rows");
  const Space space("known", input.rows());
  const nb::gil_scoped_release without_gil;
  return compute_moments(space);
}

void make(LikenessHandle* self, const nb::object& known) {
  const Moments moments = moments_of(known);
  const nb::gil_scoped_release without_gil;
  new (self) LikenessHandle{std::make_shared<const Likeness>(moments)};
}

FloatsView distances(const LikenessHandle& self, const nb::object& rows) {
  const Input input(rows, "X", "X");
  const Space space("X", input.rows());
  std::shared_ptr<const std::vector<float>> found;
  {
    const nb::gil_scoped_release without_gil;
    found = std::make_shared<const std::vector<float>>(self.likeness->distances(Floats(input, space).view()));
  }
  return view_of(*found, found);
}

constexpr const char* kText =
    R"(Whether rows could be of the model that made some known rows.

It goes by directions alone, so that it makes no difference whether rows are normalised. `kedge inspect FILE --like`
does the same for files.

Parameters
----------
known : array, path or Moments
    A thousand rows or more that are known to be of the model, or the moments of such rows.
)";

}  // namespace

void bind_likeness(nb::module_& module) {
  nb::class_<LikenessHandle> likeness(module, "Likeness", kText);
  likeness.def("__init__", &make, "known"_a)
      .def("distances", &distances, "X"_a,
           "For each row: on average 0 for rows such as those known, and 1 for rows of a model that has nothing to do "
           "with them. Below LIKE a row is like the known ones, above UNLIKE it is of another model.")
      .def_prop_ro(
          "dim", [](const LikenessHandle& self) { return self.likeness->dim(); }, "The number of values a row.")
      .def_prop_ro(
          "length", [](const LikenessHandle& self) { return self.likeness->length(); },
          "Root mean square of the known rows' lengths.")
      .def_prop_ro(
          "can_tell", [](const LikenessHandle& self) { return self.likeness->can_tell(); },
          "Whether rows of other models stand out from the known ones.");
  likeness.attr("LIKE") = Likeness::kLike;
  likeness.attr("UNLIKE") = Likeness::kUnlike;
}

}  // namespace kedge::python
