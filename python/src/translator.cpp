// SPDX-License-Identifier: Apache-2.0
#include "apply.h"
#include "handles.h"
#include "stream.h"
#include "text.h"

#include <fmt/format.h>
#include <kedge/export.h>

namespace kedge::python {
namespace {

using namespace nb::literals;

RowFunction function_of(const TranslatorHandle& handle) {
  const Translator& translator = *handle.translator;
  return {translator.from(), translator.input_dim(), translator.output_dim(), !translator.kernel(),
          [&translator](MatrixView<const float> x, MatrixView<float> y) { translator.apply(x, y); }};
}

void transform_file(const TranslatorHandle& handle, const StreamCall& call) {
  stream_file(nb::find(handle), handle.translator->from(), call,
              [&](const Space& input, const std::string& output, const Progress& progress,
                  const StreamOptions& options) { translate(*handle.translator, input, output, options, progress); });
}

nb::object kernel_of(const TranslatorHandle& self) {
  return kernel_to_dict(self.translator->kernel(), self.translator);
}

}  // namespace

void bind_translator(nb::module_& module) {
  using Handle = TranslatorHandle;
  const auto transform_rows = [](const Handle& self, nb::handle x, nb::handle out, bool normalize) {
    return apply_to(function_of(self), x, out, normalize);
  };
  nb::class_<Handle> c(
      module, "Translator",
      "Turns one encoder's embeddings into those another would have made of the same inputs: y = weight "
      "x + bias, and more with a kernel. Made by Bundle.translator.");
  bind_transform_file<Handle>(c, transform_file);
  c.def_prop_ro(
       "source", [](const Handle& self) { return self.translator->from(); }, "The encoder it translates from.")
      .def_prop_ro(
          "target", [](const Handle& self) { return self.translator->to(); }, "The encoder it translates to.")
      .def_prop_ro(
          "n_features_in", [](const Handle& self) { return self.translator->input_dim(); },
          "Dimension of the source's embeddings.")
      .def_prop_ro(
          "n_features_out", [](const Handle& self) { return self.translator->output_dim(); },
          "Dimension of the target's embeddings.")
      .def_prop_ro(
          "weight", [](const Handle& self) { return view_of(self.translator->weight(), self.translator); },
          nb::rv_policy::automatic, "dim of the target x dim of the source. A read-only view.")
      .def_prop_ro(
          "bias", [](const Handle& self) { return view_of(self.translator->bias(), self.translator); },
          nb::rv_policy::automatic, "One value per value of the target.")
      .def_prop_ro(
          "mean",
          [](const Handle& self) -> nb::object {
            if (!self.translator->kernel()) return nb::none();
            return nb::cast(view_of(self.translator->mean(), self.translator));
          },
          "What a kernel takes off the source's embeddings; None without one.")
      .def_prop_ro(
          "r2", [](const Handle& self) { return self.translator->r2(); },
          "How much of the variance of the target's rows it explains at support rows left out, as cross-validation "
          "estimates it; None unless the bundle keeps rows.")
      .def_prop_ro("kernel", &kernel_of, "What makes it non-linear, as RelativeMap.kernel; None where it is linear.")
      .def("transform", transform_rows, nb::arg("X").none(), "out"_a = nb::none(), nb::kw_only(), "normalize"_a = false,
           "Return the rows of X as the target encoder would have embedded the same inputs; with normalize, of length "
           "1. X as for RelativeMap.transform.")
      .def("__call__", transform_rows, nb::arg("X").none(), "out"_a = nb::none(), nb::kw_only(), "normalize"_a = false,
           "The same as transform.")
      .def(
          "to_torch",
          [](const nb::object& self, bool normalize) {
            return nb::module_::import_("kedge._torch").attr("translator_to_torch")(self, normalize);
          },
          nb::kw_only(), "normalize"_a = false,
          "The translator as a torch nn.Linear, or a kedge module with a kernel; with normalize, followed by a "
          "division by the length.")
      .def(
          "to_onnx",
          [](const Handle& self, const nb::object& path, bool normalize, bool in_place) {
            // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): another thread may let go of it
            const Handle held = self;
            const std::string to = path_of(path);
            const nb::gil_scoped_release without_gil;
            export_onnx(*held.translator, to, {normalize, in_place});
          },
          "path"_a, nb::kw_only(), "normalize"_a = false, "in_place"_a = false,
          "Write the translator as an ONNX file with input 'x' and output 'y', of length 1 with normalize. Replaces "
          "only "
          "what was exported before, unless in_place.")
      .def("__repr__", [](const Handle& self) {
        const Translator& t = *self.translator;
        return fmt::format("<kedge.Translator '{}' -> '{}': {} -> {} values>", t.from(), t.to(), t.input_dim(),
                           t.output_dim());
      });
}

}  // namespace kedge::python
