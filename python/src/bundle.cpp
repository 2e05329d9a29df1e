// SPDX-License-Identifier: Apache-2.0
#include "arrays.h"
#include "handles.h"
#include "inputs.h"
#include "options.h"
#include "text.h"
#include "work.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/fit.h>

namespace kedge::python {
namespace {

using namespace nb::literals;
using Ids = nb::ndarray<nb::numpy, const std::int64_t, nb::ndim<1>>;
using Doubles = nb::ndarray<nb::numpy, double, nb::ndim<1>>;

Doubles make_doubles(const std::vector<double>& values) {
  auto* copy = new double[std::max<std::size_t>(1, values.size())];
  std::ranges::copy(values, copy);
  const nb::capsule owner(copy, [](void* held) noexcept { delete[] static_cast<double*>(held); });
  return {copy, {values.size()}, owner};
}

nb::dict history_of(const BundleHandle& self) {
  nb::dict history;
  const auto add = [&](const char* name, double Losses::*part) {
    std::vector<double> values;
    for (const Losses& losses : self.bundle->anchors().history) values.push_back(losses.*part);
    history[name] = make_doubles(values);
  };
  if (self.bundle->anchors().history.empty()) return history;
  add("total", &Losses::total);
  add("symnce", &Losses::symnce);
  add("coverage", &Losses::coverage);
  add("orthogonality", &Losses::orthogonality);
  add("length", &Losses::length);
  return history;
}

[[noreturn]] void refuse_name(const std::string& name) {
  throw Error(Code::bad_argument,
              fmt::format("the bundle already has a space '{}'; choose another name, or give replace=True", name));
}

/// With all they hold where no rows come beside them; otherwise only the space's own sums are of use.
Moments own_moments(const Moments& held, const std::string& name, bool alone) {
  (void)held.mean(name);  // refuses a space they do not have
  return alone ? held : held.of(name);
}

void require_rows_of(const std::string& name, bool none, bool moments, bool plain) {
  if (!none) return;
  if (!moments) {
    throw Error(Code::bad_argument,
                fmt::format("space '{}': there are no rows to attach it by; give X, or moments that "
                            "carry its support rows",
                            name));
  }
  if (plain) return;
  throw Error(
      Code::bad_argument,
      fmt::format("space '{}': rows, support_rows and pairs say something about X, which is not given; leave them out",
                  name));
}

void require_rows_with_ids(const std::string& name, bool none, bool moments, bool support_rows) {
  if (!none && !moments && !support_rows) return;
  throw Error(Code::bad_argument,
              fmt::format("space '{}': ids find the support rows in X; leave them out, or give all rows "
                          "as X, without moments and support_rows",
                          name));
}

/// The work is done on the bundle as it was at the start; what came of it is put into the bundle as it is at the end.
MapHandle attach_to(BundleHandle& self, const std::string& name, const nb::object& x, const nb::object& rows,
                    bool support_rows, const nb::object& by, const nb::object& ridge, const nb::object& device,
                    bool replace, const nb::object& known, const nb::object& progress, const nb::object& effort,
                    const nb::object& kernel_width, const nb::object& kernel_strength,
                    const nb::object& kernel_whitening, bool robust, const nb::object& ids, const nb::object& pairs) {
  std::optional<Moments> moments;
  if (!known.is_none() && !nb::isinstance<MomentsHandle>(known)) {
    throw nb::type_error("moments must be kedge.Moments; kedge.Moments.load(path) reads a file of them");
  }
  if (!known.is_none()) {
    moments = nb::cast<const MomentsHandle&>(known).read(
        [&](const Moments& held) { return own_moments(held, name, x.is_none()); });
  }
  require_rows_of(name, x.is_none(), moments.has_value(), rows.is_none() && !support_rows && pairs.is_none());
  if (moments && !rows.is_none() && !support_rows) {
    throw Error(Code::bad_argument,
                "rows says which rows to take statistics from, but these come from moments; leave out one of them");
  }
  if (!ids.is_none()) require_rows_with_ids(name, x.is_none(), moments.has_value(), support_rows);
  AttachOptions options;
  nb::dict values;
  values["support_rows"] = support_rows;
  values["attach"] = by;
  values["ridge"] = ridge;
  values["device"] = device;
  values["effort"] = effort;
  values["kernel_width"] = kernel_width;
  values["kernel_strength"] = kernel_strength;
  values["kernel_whitening"] = kernel_whitening;
  values["robust"] = robust;
  set_options(options_of(options), values);
  if (self.bundle->has(name) && !replace) refuse_name(name);
  require_device(options.device);
  std::optional<Input> input;
  if (!x.is_none()) input.emplace(x, fmt::format("space '{}'", name), "the array");
  const RowChoice chosen = to_rows(rows);
  AttachRows from{{}, std::move(moments)};
  if (!ids.is_none()) from.ids = to_ids(ids);
  if (!pairs.is_none()) from.pairs = to_pairs(pairs, 2, "a row number of the fit and one of X");
  const std::shared_ptr<const Bundle> before = self.bundle;
  Attachment made = run(progress, !input || !input->is_file(), [&](const Progress& report) {
    if (input) from.space = chosen.of(name, input->rows());
    return attach(*before, read_input(*before, from, options, report), options, report);
  });
  if (self.bundle->has(name) && !replace) refuse_name(name);  // another thread was faster
  auto grown = std::make_shared<const Bundle>(self.bundle->with(std::move(made)));
  warn_of(warnings_of_attached(*grown, grown->space(name)), 1);  // where that is an error, nothing is attached
  self.bundle = std::move(grown);
  return self.map(name);
}

// Each takes the bundle itself, so that it stays while other threads run.
void save(const BundleHandle& self, nb::handle path, bool in_place) {
  const std::shared_ptr<const Bundle> bundle = self.bundle;
  const std::string to = path_of(path);
  const nb::gil_scoped_release without_gil;
  save_bundle(*bundle, to, in_place);
}

BundleHandle load(nb::handle path) {
  const std::string from = path_of(path);
  const nb::gil_scoped_release without_gil;
  return {std::make_shared<const Bundle>(load_bundle(from))};
}

TranslatorHandle translator(const BundleHandle& self, const std::string& source, const std::string& target) {
  const std::shared_ptr<const Bundle> bundle = self.bundle;
  const nb::gil_scoped_release without_gil;
  return {std::make_shared<const Translator>(*bundle, source, target)};
}

std::string to_bytes(const std::shared_ptr<const Bundle>& held) {
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): without the GIL another thread may let go of it
  const std::shared_ptr<const Bundle> bundle = held;
  const nb::gil_scoped_release without_gil;
  return bundle_to_bytes(*bundle);
}

nb::dict spaces_of(const BundleHandle& self) {
  nb::dict spaces;
  for (const Attachment& space : self.bundle->spaces()) {
    spaces[nb::cast(space.space())] = nb::cast(self.map(space.space()));
  }
  return spaces;
}

std::string describe(const BundleHandle& self) {
  const Bundle& b = *self.bundle;
  std::vector<std::string> names;
  for (const Attachment& space : b.spaces()) names.push_back(space.space());
  return fmt::format("<kedge.Bundle: {} anchors ({}, {}) from {} support rows; spaces: {}>", b.anchors().mixture.rows(),
                     to_string(b.made().method), to_string(b.made().similarity), b.anchors().support_ids.size(),
                     fmt::join(names, ", "));
}

constexpr const char* kAttachText =
    R"(Add an encoder without changing the anchors: its map is kept under `name` and returned.

Parameters
----------
name : str
    What to call the encoder.
X : array or path, optional
    Its embeddings of the inputs the bundle was fitted on, in the same order; or, with support_rows, of the support rows
    alone, in the order of `support_ids`. May be left out if `moments` carry its support rows.
rows : slice, (first, end), 'first:end', array of row numbers or mask, optional
    Rows to compute its mean and covariance from; all by default.
support_rows : bool
    Whether X holds only the support rows.
attach : 'mixture', 'ridge', 'kernel' or 'auto', optional
    How to make its map; by default as for the bundle's other spaces. 'auto' takes ridge or kernel, whichever has the
    smaller leave-one-out error.
ridge : 'auto' or float
    Strength of the ridge; 'auto' chooses it by cross-validation.
device : str
    Where to compute.
effort : 'fast' or 'best'
    'best' makes its map by kernel, if the bundle has targets and `attach` is not given.
kernel_width, kernel_strength, kernel_whitening : 'auto' or float
    Of a map by kernel; 'auto' chooses them by leave-one-out error.
robust : bool
    Leave out support rows that are other inputs than the bundle's, as the other rows tell; for a map by ridge or
    kernel.
replace : bool
    Whether a space of the same name may be replaced.
moments : Moments, optional
    Take its statistics from these moments of its rows instead of from X; and its support rows, if there is no X and
    they were made with support=bundle.support_ids.
progress : bool or callable
    As for fit.
ids : array of int or list of str, optional
    An id for each row of X, to find the support rows by; needed if the support was drawn by id.
pairs : array of int or path, optional
    Which rows are which, if X is not in the order of the fit: two columns, row numbers of the first space that was
    fitted and of X. A ridge makes do with some of the support rows.

Returns
-------
RelativeMap
)";

void bind_properties(nb::class_<BundleHandle>& c) {
  c.def_prop_ro("spaces", &spaces_of, "The map of every space by its name: the sources, then attached ones.")
      .def_prop_ro(
          "sources", [](const BundleHandle& self) { return self.bundle->made().sources; },
          "The spaces the bundle was fitted on.")
      .def_prop_ro(
          "mixture", [](const BundleHandle& self) { return view_of(self.bundle->anchors().mixture, self.bundle); },
          nb::rv_policy::automatic, "P, anchors x support. A read-only view.")
      .def_prop_ro(
          "targets",
          [](const BundleHandle& self) -> nb::object {
            if (self.bundle->anchors().targets.rows() == 0) return nb::none();
            return nb::cast(view_of(self.bundle->anchors().targets, self.bundle));
          },
          "What ridge and kernel regress, support x anchors; None if neither is possible.")
      .def_prop_ro(
          "support_ids",
          [](const BundleHandle& self) {
            return Ids(self.bundle->anchors().support_ids.data(), {self.bundle->anchors().support_ids.size()},
                       keep(self.bundle));
          },
          nb::rv_policy::automatic,
          "Row numbers of the support in the arrays or files; their ids if it was drawn by id.")
      .def_prop_ro(
          "by_id", [](const BundleHandle& self) { return self.bundle->anchors().by_id; },
          "Whether support_ids are ids of rows, and not their numbers.")
      .def_prop_ro("history", &history_of,
                   "The losses of every epoch by name (total, symnce, coverage, orthogonality, length) if anchors were "
                   "learned; otherwise empty. pandas.DataFrame(bundle.history) is a table.")
      .def_prop_ro(
          "refine_losses", [](const BundleHandle& self) { return make_doubles(self.bundle->anchors().refine_losses); },
          nb::rv_policy::automatic, "Loss on held-out rows: before refinement, then after each of its epochs.")
      .def_prop_ro(
          "method", [](const BundleHandle& self) { return std::string(to_string(self.bundle->made().method)); },
          "How the anchors were found.")
      .def_prop_ro("similarity",
                   [](const BundleHandle& self) { return std::string(to_string(self.bundle->made().similarity)); })
      .def_prop_ro(
          "n_anchors", [](const BundleHandle& self) { return self.bundle->anchors().mixture.rows(); },
          "Number of anchors, which is the dimension of the shared space.")
      .def_prop_ro(
          "seed", [](const BundleHandle& self) { return self.bundle->made().seed; }, "The seed it was made with.")
      .def_prop_ro(
          "kedge_version", [](const BundleHandle& self) { return self.bundle->made().kedge_version; },
          "The version of kedge that made it.");
}

}  // namespace

void bind_bundle(nb::module_& module) {
  module.def(
      "load_map",
      [](nb::handle path, const std::string& space) {
        const std::string from = path_of(path);
        const nb::gil_scoped_release without_gil;
        return MapHandle{std::make_shared<const Attachment>(Attachment{load_map(from, space), Directly{}})};
      },
      "path"_a, "space"_a);
  nb::class_<BundleHandle> c(module, "Bundle",
                             "What fit learns and attach extends: the mixture, the rows it mixes, and the map of every "
                             "space. Made by kedge.fit and kedge.load.");
  bind_properties(c);
  c.def("save", &save, "path"_a, nb::kw_only(), "in_place"_a = false,
        "Write the bundle as the command does; an older file stays until the new one is complete. Replaces only "
        "bundles, "
        "unless in_place.")
      .def_static("load", &load, "path"_a,
                  "Read a bundle written by 'save' or the command. Raises OSError for anything else.")
      .def("__getitem__", &BundleHandle::map, "space"_a, "The map of one space.")
      .def(
          "__contains__", [](const BundleHandle& self, const std::string& name) { return self.bundle->has(name); },
          "space"_a)
      .def("translator", &translator, "source"_a, "target"_a, "From one space's embeddings to another's.")
      .def("attach", &attach_to, "name"_a, "X"_a = nb::none(), nb::kw_only(), "rows"_a = nb::none(),
           "support_rows"_a = AttachOptions().support_rows, "attach"_a = nb::none(), "ridge"_a = "auto",
           "device"_a = std::string(to_string(AttachOptions().device)), "replace"_a = false, "moments"_a = nb::none(),
           "progress"_a = false, "effort"_a = std::string(to_string(AttachOptions().effort)), "kernel_width"_a = "auto",
           "kernel_strength"_a = "auto", "kernel_whitening"_a = "auto", "robust"_a = AttachOptions().robust,
           "ids"_a = nb::none(), "pairs"_a = nb::none(), kAttachText)
      .def("__repr__", &describe)
      .def("__copy__", [](const BundleHandle& self) { return self; })
      .def(  // what it points to never changes
          "__deepcopy__", [](const BundleHandle& self, const nb::dict&) { return self; }, "memo"_a)
      .def("__getstate__",
           [](const BundleHandle& self) {
             const std::string bytes = to_bytes(self.bundle);
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def("__setstate__", [](BundleHandle& self, const nb::bytes& bytes) {
        new (&self) BundleHandle{
            std::make_shared<const Bundle>(bundle_from_bytes({bytes.c_str(), bytes.size()}, "the pickled bundle"))};
      });
}

}  // namespace kedge::python
