// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>
// All of them in one place: a file that lacks one compiles, and fails when it runs.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

/// One function per file, each of which binds one type or a few functions that belong together.
namespace kedge::python {

void bind_options(nb::module_& module);
void bind_devices(nb::module_& module);
void bind_relative_map(nb::module_& module);
void bind_translator(nb::module_& module);
void bind_bundle(nb::module_& module);
void bind_draw(nb::module_& module);
void bind_moments(nb::module_& module);
void bind_fit(nb::module_& module);
void bind_likeness(nb::module_& module);
void bind_match(nb::module_& module);
void bind_compare(nb::module_& module);
void bind_retrieve(nb::module_& module);
void bind_stitch(nb::module_& module);

}  // namespace kedge::python
