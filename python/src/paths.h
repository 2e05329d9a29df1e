// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings.h"

#include <string>

namespace kedge::python {

/// Of a str or anything with __fspath__. Throws TypeError for anything else.
[[nodiscard]] inline std::string path_of(nb::handle path) {
  return nb::borrow<nb::str>(nb::module_::import_("os").attr("fspath")(path)).c_str();
}

}  // namespace kedge::python
