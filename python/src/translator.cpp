// SPDX-License-Identifier: Apache-2.0
#include "apply.h"
#include "handles.h"
#include "text.h"
#include "work.h"

#include <fmt/format.h>

namespace kedge::python {
namespace {

using namespace nb::literals;

RowFunction function_of(const TranslatorHandle& handle) {
  const Translator& translator = *handle.translator;
  return {translator.from(), translator.input_dim(), translator.output_dim(), true,
          [&translator](MatrixView<const float> x, MatrixView<float> y) { translator.apply(x, y); }};
}

void transform_file(const TranslatorHandle& handle, const nb::object& input, const nb::object& output,
                    const nb::object& rows, const std::string& device, const std::string& precision,
                    const nb::object& progress) {
  const RowRange range = to_rows(rows);
  const std::string from = path_of(input);
  const std::string to = path_of(output);
  run(progress, false, [&](const Progress& report) {
    const Device where = parse_device(device);
    require_device(where);
    translate(*handle.translator, Space(handle.translator->from(), open_rows(from), range), to, report, where,
              parse_precision(precision));
  });
}

}  // namespace

void bind_translator(nb::module_& module) {
  using Handle = TranslatorHandle;
  const auto transform_rows = [](const Handle& self, nb::handle x, nb::handle out) {
    return apply_to(function_of(self), x, out);
  };
  nb::class_<Handle>(module, "Translator",
                     "Turns one encoder's embeddings into those another would have made of the same inputs: y = weight "
                     "x + bias. Made by Bundle.translator.")
      .def_prop_ro(
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
      .def("transform", transform_rows, nb::arg("X").none(), "out"_a = nb::none(),
           "Return the rows of X as the target encoder would have embedded the same inputs. X as for "
           "RelativeMap.transform.")
      .def("__call__", transform_rows, nb::arg("X").none(), "out"_a = nb::none(), "The same as transform.")
      .def("transform_file", &transform_file, "input"_a, "output"_a, nb::kw_only(), "rows"_a = nb::none(),
           "device"_a = std::string(to_string(Device::cpu)), "precision"_a = std::string(to_string(Precision::fp32)),
           "progress"_a = false,
           "Stream a file's rows into a float32 .npy, as 'kedge translate' does; memory use does not grow with the "
           "rows.")
      .def(
          "to_torch", [](const nb::object& self) { return nb::module_::import_("kedge._torch").attr("linear")(self); },
          "The translator as a torch nn.Linear.")
      .def("__repr__", [](const Handle& self) {
        const Translator& t = *self.translator;
        return fmt::format("<kedge.Translator '{}' -> '{}': {} -> {} values>", t.from(), t.to(), t.input_dim(),
                           t.output_dim());
      });
}

}  // namespace kedge::python
