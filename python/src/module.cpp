// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

#include <kedge/error.h>
#include <kedge/version.h>

#include <exception>
#include <new>
#include <string>

namespace {

/// The sentences stay as they are; what kind of help is needed decides the type, by Python's own names.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const kedge::Error& problem) {
    PyErr_SetString(problem.code() == kedge::Code::bad_argument ? PyExc_ValueError : PyExc_OSError, problem.what());
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
  bind_options(module);
  bind_devices(module);
  bind_relative_map(module);
  bind_translator(module);
  bind_bundle(module);
  bind_fit(module);
  bind_compare(module);
  bind_stitch(module);
}
