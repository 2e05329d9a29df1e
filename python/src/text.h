// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings.h"

#include <string>

namespace kedge::python {

/// The text of a str. Throws TypeError for anything else, ValueError for one that UTF-8 cannot hold; both say `what`.
[[nodiscard]] std::string text_of(nb::handle text, const char* what);

/// The bytes of a path: a str, or anything with __fspath__. Throws TypeError for anything else, ValueError for a path
/// with a zero in it.
[[nodiscard]] std::string path_of(nb::handle path);

}  // namespace kedge::python
