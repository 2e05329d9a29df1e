// SPDX-License-Identifier: Apache-2.0
#include "apply.h"
#include "handles.h"
#include "stream.h"
#include "text.h"

#include <fmt/format.h>
#include <kedge/bundle.h>
#include <kedge/error.h>
#include <kedge/export.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>
#include <utility>

namespace kedge::python {
namespace {

using namespace nb::literals;

RowFunction function_of(const MapHandle& handle) {
  const RelativeMap& map = handle.map();
  const bool affine = !map.kernel() && (map.similarity() == Similarity::wip || map.similarity() == Similarity::inner);
  return {map.space(), map.input_dim(), map.output_dim(), affine,
          [&map](MatrixView<const float> x, MatrixView<float> rr) { map.apply(x, rr); }};
}

MapHandle make(const std::string& space, const std::string& similarity, const GivenMatrix& weight,
               const GivenFloats& bias, const GivenFloats& mean) {
  require_space_name(space);
  for (const auto& [name, values] : {std::pair("weight", std::span(weight.data(), weight.size())),
                                     std::pair("bias", std::span(bias.data(), bias.size())),
                                     std::pair("mean", std::span(mean.data(), mean.size()))}) {
    if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) continue;
    throw Error(Code::bad_argument,
                fmt::format("the {} of a map must be finite, but that of '{}' is not", name, space));
  }
  RelativeMap map(space, parse_similarity(similarity), to_matrix(weight), to_floats(bias), to_floats(mean));
  return {
      std::make_shared<const Attachment>(Attachment{std::make_shared<const RelativeMap>(std::move(map)), Directly{}})};
}

void transform_file(const MapHandle& handle, const StreamCall& call) {
  stream_file(nb::find(handle), handle.map().space(), call,
              [&](const Space& input, const std::string& output, const Progress& progress,
                  const StreamOptions& options) { transform(handle.map(), input, output, options, progress); });
}

std::string describe(const MapHandle& handle) {
  const RelativeMap& map = handle.map();
  return fmt::format("<kedge.RelativeMap of '{}': {} -> {} values, {}{}>", map.space(), map.input_dim(),
                     map.output_dim(), to_string(map.similarity()), map.kernel() ? ", kernel" : "");
}

nb::object row_check_of(const MapHandle& self) {
  if (!self.space->row_check) return nb::none();
  const RowCheck& check = *self.space->row_check;
  nb::dict result;
  result["rows"] = check.rows;
  result["among"] = check.among;
  result["found_first"] = check.found_first;
  result["deviations"] = check.deviations;
  result["suspicious"] = check.suspicious();
  if (check.same_as) result["same_as"] = *check.same_as;
  if (check.block) {
    const RowRange rows = check.block->rows;
    result["block"] =
        nb::make_tuple(rows.begin, rows.end == RowRange::kEnd ? nb::object(nb::none()) : nb::cast(rows.end));
    result["found_first_in_block"] = check.block->found_first;
  }
  if (check.remedy == RowCheck::Remedy::none) return result;
  result["found_first_then"] = check.found_first_then;
  if (check.remedy == RowCheck::Remedy::shift) result["shift"] = check.shift;
  return result;
}

nb::object kernel_of(const MapHandle& self) {
  nb::object result = kernel_to_dict(self.map().kernel(), self.space);
  const KernelFit* fit = self.space->kernel();
  if (fit == nullptr) return result;
  result["strength"] = fit->strength;
  result["whitening"] = fit->whitening;
  return result;
}

/// How it was made, after what it is made of: strength, whitening and mean R^2 of a ridge, or of a kernel.
using Numbers = std::tuple<double, double, double>;
using Made = std::tuple<std::string, std::optional<Numbers>, std::optional<Numbers>>;
/// A kernel: width, whitener, rows and coefficients.
template <class Values>
using Parts = std::optional<std::tuple<double, Values, Values, Values>>;
using State =
    std::tuple<std::string, std::string, FloatMatrixView, FloatsView, FloatsView, Made, Parts<FloatMatrixView>>;
using GivenState =
    std::tuple<std::string, std::string, GivenMatrix, GivenFloats, GivenFloats, Made, Parts<GivenMatrix>>;

State state_of(const MapHandle& self) {
  const RelativeMap& map = self.map();
  Made made{to_string(self.space->by), std::nullopt, std::nullopt};
  if (const RidgeFit* fit = self.space->ridge()) {
    std::get<1>(made).emplace(fit->strength, fit->whitening, fit->mean_r2);
  }
  if (const KernelFit* fit = self.space->kernel())
    std::get<2>(made).emplace(fit->strength, fit->whitening, fit->mean_r2);
  Parts<FloatMatrixView> parts;
  if (const auto& kernel = map.kernel()) {
    parts.emplace(kernel->width, view_of(kernel->whitener, self.space), view_of(kernel->rows, self.space),
                  view_of(kernel->coefficients, self.space));
  }
  return {map.space(),
          std::string(to_string(map.similarity())),
          view_of(map.weight(), self.space),
          view_of(map.bias(), self.space),
          view_of(map.mean(), self.space),
          made,
          parts};
}

MapHandle from_state(const GivenState& state) {
  const auto& [space, similarity, weight, bias, mean, made, parts] = state;
  const auto& [by, ridge, fit] = made;
  Attachment attachment = *make(space, similarity, weight, bias, mean).space;
  if (parts) {
    const auto& [width, whitener, rows, coefficients] = *parts;
    const RelativeMap& line = *attachment.map;
    attachment.map = std::make_shared<const RelativeMap>(
        line.space(), line.similarity(), line.weight(), line.bias(), line.mean(),
        Kernel{width, to_matrix(whitener), to_matrix(rows), to_matrix(coefficients)});
  }
  const auto [strength, whitening, r2] = (by == "kernel" ? fit : ridge).value_or(Numbers());
  if (by == "mixture") {
    attachment.by = ByMixture{};
  } else if (by == "ridge") {
    attachment.by = ByRidge{{strength, whitening, {}, r2}};
  } else if (by == "kernel") {
    attachment.by = ByKernel{{parts ? std::get<0>(*parts) : 0, strength, whitening, {}, r2, 0}};
  } else if (by != "direct") {
    throw Error(Code::bad_argument, fmt::format("a map is not made by '{}'", by));
  }
  return {std::make_shared<const Attachment>(std::move(attachment))};
}

constexpr const char* kTransformText = R"(Return the rows of X in the shared space, rows x anchors, as float32.

Parameters
----------
X : array, tensor, column or path
    Embeddings of any float type and layout; float32 in C order is not copied. A tensor gives a tensor.
out : array of float32, optional
    Where to write the result, in C order.
normalize : bool
    Whether to divide every result by its length; a row of zeros stays one.

Raises
------
ValueError
    For rows of the wrong length, and for NaN or infinity; the message names the row.
)";

void bind_properties(nb::class_<MapHandle>& c) {
  c.def_prop_ro(
       "space", [](const MapHandle& self) { return self.map().space(); }, "The encoder's name.")
      .def_prop_ro(
          "similarity", [](const MapHandle& self) { return std::string(to_string(self.map().similarity())); },
          "How embeddings are compared with anchors: wip, cosine, euclidean, inner, angular or manhattan.")
      .def_prop_ro(
          "n_features_in", [](const MapHandle& self) { return self.map().input_dim(); }, "Dimension of the embeddings.")
      .def_prop_ro(
          "n_anchors", [](const MapHandle& self) { return self.map().output_dim(); },
          "Number of anchors, which is the dimension of the shared space.")
      .def_prop_ro(
          "weight", [](const MapHandle& self) { return view_of(self.map().weight(), self.space); },
          nb::rv_policy::automatic,
          "anchors x dim. With wip and inner, RR(x) = weight x + bias, unless there is a kernel. A read-only view.")
      .def_prop_ro(
          "bias", [](const MapHandle& self) { return view_of(self.map().bias(), self.space); },
          nb::rv_policy::automatic, "One value per anchor.")
      .def_prop_ro(
          "mean", [](const MapHandle& self) { return view_of(self.map().mean(), self.space); },
          nb::rv_policy::automatic, "Mean of the rows the map was made from.")
      .def_prop_ro(
          "attached_by", [](const MapHandle& self) { return std::string(to_string(self.space->by)); },
          "How the map was made: mixture, ridge, kernel or direct.")
      .def_prop_ro(
          "r2",
          [](const MapHandle& self) {
            std::optional<double> r2;
            if (const MixtureFit* fit = self.space->mixture()) r2 = fit->mean_r2;
            if (const KernelFit* fit = self.space->kernel()) r2 = fit->mean_r2;
            if (const RidgeFit* fit = self.space->ridge()) r2 = fit->mean_r2;
            return r2;
          },
          "How much of the variance of the anchors the map explains: for a ridge as generalised cross-validation "
          "estimates it, which holds no rows out; for a kernel at support rows left out one by one; for a mixture at "
          "support rows left out of their own anchors. None where there are no targets to compare with. Optimistic for "
          "a source, which helped to make what it is measured against, and worth nothing if its row_check is "
          "suspicious.")
      .def_prop_ro(
          "translations",
          [](const MapHandle& self) {
            nb::dict all;
            for (const auto& [to, r2] : self.space->translations) all[to.c_str()] = r2;
            return all;
          },
          "How much of the variance of each other source's rows a translation is expected to explain, at rows that the "
          "fit has not seen. Empty for a bundle that was loaded, an adapter, and spaces attached later; unless rows "
          "are kept, also for maps by mixture and for similarities other than wip. A pair is left out if the support "
          "has fewer rows than values and less than nothing would be expected. A source that is replaced leaves those "
          "of the others.")
      .def_prop_ro("kernel", &kernel_of,
                   "What makes the map non-linear, if it was made by kernel: 'width', 'strength' and 'whitening' as "
                   "they were chosen, and the arrays 'whitener' (None for the identity), 'rows' and 'coefficients'; "
                   "docs/format.md has the formula. None for other maps.")
      .def_prop_ro("row_check", &row_check_of,
                   "Whether its rows are those of the other spaces: 'found_first' is the share of 'rows' that find "
                   "themselves first 'among' so many, in rows that were held out; 'suspicious' where that is no better "
                   "than chance or another order of rows fits better, for all rows or for those of 'block', a first "
                   "row and an end (None: the last row); 'same_as' names another space with the very same rows. None "
                   "where there were too few rows to tell.")
      .def_prop_ro(
          "ridge",
          [](const MapHandle& self) {
            const RidgeFit* fit = self.space->ridge();
            return fit != nullptr ? std::optional(fit->strength) : std::nullopt;
          },
          "Strength of the ridge if the map was made by one; otherwise None.");
}

}  // namespace

void warn(const std::string& text, int level) {
  if (text.empty()) return;
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), level) != 0) nb::raise_python_error();
}

void warn_of(std::span<const std::string> warnings, int level) {
  for (const std::string& text : warnings) warn(text, level);
}

void bind_relative_map(nb::module_& module) {
  nb::class_<MapHandle> c(
      module, "RelativeMap",
      "x -> RR(x), the similarities of an encoder's embedding to its anchors: the way into the shared "
      "space. Never changes; threads may share it.");
  c.def(
      "__init__",
      [](MapHandle* self, const std::string& space, const std::string& similarity, const GivenMatrix& weight,
         const GivenFloats& bias,
         const GivenFloats& mean) { new (self) MapHandle(make(space, similarity, weight, bias, mean)); },
      "space"_a, "similarity"_a, "weight"_a, "bias"_a, "mean"_a,
      "A map of your own; docs/format.md says what weight, bias and mean hold for each similarity.");
  bind_properties(c);
  const auto transform_rows = [](const MapHandle& self, nb::handle x, nb::handle out, bool normalize) {
    return apply_to(function_of(self), x, out, normalize);
  };
  bind_transform_file<MapHandle>(c, transform_file);
  c.def("transform", transform_rows, nb::arg("X").none(), "out"_a = nb::none(), nb::kw_only(), "normalize"_a = false,
        kTransformText)
      .def("__call__", transform_rows, nb::arg("X").none(), "out"_a = nb::none(), nb::kw_only(), "normalize"_a = false,
           "The same as transform.")
      .def(
          "to_torch",
          [](const nb::object& self, bool normalize) {
            return nb::module_::import_("kedge._torch").attr("map_to_torch")(self, normalize);
          },
          nb::kw_only(), "normalize"_a = false,
          "The map as a torch module: nn.Linear for wip and inner, a kedge module for others and for kernels. With "
          "normalize, results "
          "have length 1.")
      .def(
          "to_onnx",
          [](const MapHandle& self, const nb::object& path, bool normalize, bool in_place) {
            // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): another thread may let go of it
            const MapHandle held = self;
            const std::string to = path_of(path);
            const nb::gil_scoped_release without_gil;
            export_onnx(held.map(), to, {normalize, in_place});
          },
          "path"_a, nb::kw_only(), "normalize"_a = false, "in_place"_a = false,
          "Write the map as an ONNX file with input 'x' and output 'rr', of length 1 with normalize. Replaces only "
          "what "
          "was exported before, unless in_place.")
      .def("__repr__", &describe)
      .def("__copy__", [](const MapHandle& self) { return self; })
      .def(
          "__deepcopy__", [](const MapHandle& self, const nb::dict&) { return self; }, "memo"_a)
      .def("__getstate__", &state_of)
      .def("__setstate__", [](MapHandle& self, const GivenState& state) { new (&self) MapHandle(from_state(state)); });
}

}  // namespace kedge::python
