// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include "text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/error.h>
#include <kedge/lab/head.h>

#include <algorithm>
#include <string_view>
#include <string>
#include <variant>

namespace kedge::python {
namespace {

[[noreturn]] void refuse(const Option& option, const char* expected, nb::handle found) {
  throw nb::type_error(
      fmt::format("{} is {}, expected {}", keyword_of(option), nb::repr(found).c_str(), expected).c_str());
}

/// As Python does for its own sizes: numpy's integers will do, booleans and floats will not.
std::size_t to_count(const Option& option, nb::handle value) {
  if (PyBool_Check(value.ptr()) || PyIndex_Check(value.ptr()) == 0) refuse(option, "a whole number", value);
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) {  // an array that is no single number, or the like
    PyErr_Clear();
    refuse(option, "a whole number", value);
  }
  std::size_t count = 0;
  if (!nb::try_cast(number, count) || count < option.least) {
    throw Error(Code::bad_argument, fmt::format("{} is {}, expected a whole number of {} or more", keyword_of(option),
                                                nb::repr(value).c_str(), option.least));
  }
  return count;
}

double to_number(const Option& option, nb::handle value) {
  if (PyBool_Check(value.ptr())) refuse(option, "a number", value);
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse(option, "a number", value);
  }
  return number;
}

/// Names as they are; numbers as Python writes them, which is exact.
std::string to_text(const Option& option, nb::handle value) {
  if (nb::isinstance<nb::str>(value)) return text_of(value, keyword_of(option).c_str());
  if (option.choices.empty()) return nb::repr(nb::float_(to_number(option, value))).c_str();
  throw nb::type_error(fmt::format("{} is {}, expected one of: {}", keyword_of(option), nb::repr(value).c_str(),
                                   fmt::join(option.choices, ", "))
                           .c_str());
}

struct Write {
  const Option& option;
  nb::handle value;

  void operator()(bool* to) const {
    // numpy's own truth values are no subclass of Python's.
    const bool numpys = std::string_view(nb::type_name(value.type()).c_str()).starts_with("numpy.bool");
    if (!PyBool_Check(value.ptr()) && !numpys) refuse(option, "True or False", value);
    *to = PyObject_IsTrue(value.ptr()) == 1;
  }
  void operator()(std::size_t* to) const { *to = to_count(option, value); }
  void operator()(std::optional<std::size_t>* to) const {
    const std::size_t count = to_count(option, value);
    *to = count == 0 ? std::nullopt : std::optional(count);
  }
  void operator()(double* to) const { *to = to_number(option, value); }
  void operator()(std::string* to) const { *to = path_of(value); }
  void operator()(std::vector<std::size_t>* to) const {
    std::vector<std::size_t> counts;
    for (const nb::handle one : nb::iter(value)) counts.push_back(to_count(option, one));
    *to = std::move(counts);
  }
  void operator()(const TextValue& to) const { to.set(to_text(option, value)); }
};

nb::object read(const Option& option) {
  return std::visit([](const auto& value) { return nb::cast(value); }, value_of(option));
}

nb::list describe(const std::vector<Option>& options) {
  nb::list list;
  for (const Option& option : options) {
    nb::dict one;
    one["name"] = keyword_of(option);
    one["help"] = option.help;
    one["type"] = std::string(option.type);
    one["group"] = std::string(option.group);
    one["choices"] = std::vector<std::string>(option.choices.begin(), option.choices.end());
    one["default"] = option.shows_default ? read(option) : nb::none();
    list.append(one);
  }
  return list;
}

template <class Options>
nb::list describe_defaults() {
  Options defaults;
  return describe(options_of(defaults));
}

}  // namespace

void set_option(const Option& option, nb::handle value) {
  if (!value.is_none()) std::visit(Write{option, value}, option.value);
}

void set_options(const std::vector<Option>& options, const nb::dict& values) {
  for (const auto& [key, value] : values) {
    const auto name = nb::cast<std::string>(key);
    const auto option = std::ranges::find(options, name, keyword_of);
    if (option == options.end()) throw nb::type_error(fmt::format("there is no option '{}'", name).c_str());
    set_option(*option, value);
  }
}

void bind_options(nb::module_& module) {
  module.def("fit_options", &describe_defaults<FitArguments>,
             "The options of fit: name, help, type, choices, default.");
  module.def("attach_options", &describe_defaults<AttachOptions>, "The same for attach.");
  module.def("match_options", &describe_defaults<MatchOptions>, "The same for match.");
  module.def("compare_options", &describe_defaults<CompareOptions>, "The same for compare.");
  module.def("retrieve_options", &describe_defaults<RetrieveOptions>, "The same for retrieve.");
  module.def("head_options", &describe_defaults<HeadOptions>, "The same for the heads of stitch.");
}

}  // namespace kedge::python
