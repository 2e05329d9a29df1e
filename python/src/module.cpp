// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"
#include "text.h"
#include "work.h"
#include "io/outputs.h"

#include <kedge/error.h>
#include <kedge/version.h>

#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>

namespace {

nb::object unicode(std::string_view text) {  // which may name a path that is not UTF-8
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

/// A program of the package that stands in for the command says what the command would: it finds that in the error.
void raise(PyObject* type, const kedge::Error& problem) {
  const nb::object error = nb::borrow(type)(unicode(problem.message(kedge::Vocabulary::python)));
  error.attr("in_words_of_the_command") = unicode(problem.message(kedge::Vocabulary::command));
  PyErr_SetObject(type, error.ptr());
}

/// The sentences stay as they are; what kind of help is needed decides the type, by Python's own names.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const kedge::UnknownSpace& problem) {
    raise(nb::module_::import_("kedge._errors").attr("UnknownSpace").ptr(), problem);
  } catch (const kedge::Error& problem) {
    raise(problem.code() == kedge::Code::bad_argument ? PyExc_ValueError : PyExc_OSError, problem);
  } catch (const nb::cast_error&) {
    PyErr_SetString(PyExc_TypeError, "an argument, or a value inside one, has the wrong type");
  } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError,
                    "out of memory; use fewer rows, values, support rows or anchors, or a machine with more memory");
  }
}

}  // namespace

NB_MODULE(_core, module) {
  using namespace kedge::python;
  module.doc() = "kedge's C++ library; use it through the package 'kedge'.";
  module.attr("__version__") = std::string(kedge::version());
  nb::register_exception_translator(translate);
  module.def(
      "require_other_file",
      [](const nb::object& output, const nb::object& input, std::optional<bool> in_place) {
        kedge::require_other_file(path_of(output), path_of(input), in_place);
      },
      nb::arg("output"), nb::arg("input"), nb::arg("in_place") = nb::none());
  stop_calls_at_exit();
  bind_options(module);
  bind_devices(module);
  bind_relative_map(module);
  bind_translator(module);
  bind_draw(module);
  bind_moments(module);
  bind_bundle(module);
  bind_fit(module);
  bind_likeness(module);
  bind_match(module);
  bind_compare(module);
  bind_retrieve(module);
  bind_stitch(module);
}
