// SPDX-License-Identifier: Apache-2.0
#include "text.h"

#include <fmt/format.h>
#include <kedge/error.h>

namespace kedge::python {

std::string text_of(nb::handle text, const char* what) {
  if (PyUnicode_Check(text.ptr()) == 0) {
    throw nb::type_error(fmt::format("{} must be a str, found {}", what, nb::repr(text).c_str()).c_str());
  }
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes == nullptr) {
    PyErr_Clear();
    throw Error(Code::bad_argument, fmt::format("{} holds half a character, which UTF-8 cannot encode", what));
  }
  return {bytes, static_cast<std::size_t>(size)};
}

std::string path_of(nb::handle path) {
  const nb::object encoded = nb::module_::import_("os").attr("fsencode")(path);
  char* bytes = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(encoded.ptr(), &bytes, &size) != 0) nb::raise_python_error();
  std::string text(bytes, static_cast<std::size_t>(size));
  if (text.find('\0') != std::string::npos) throw Error(Code::bad_argument, "a path holds a zero byte");
  return text;
}

}  // namespace kedge::python
