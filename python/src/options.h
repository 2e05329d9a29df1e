// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings.h"

#include <kedge/options/lists.h>

#include <vector>

namespace kedge::python {

/// Writes values by their Python names into the options of a list. None leaves an option as it is. Throws TypeError for
/// a name that is not in the list or a value of the wrong type, ValueError for one that cannot be.
void set_options(const std::vector<Option>& options, const nb::dict& values);

/// The same for one value.
void set_option(const Option& option, nb::handle value);

}  // namespace kedge::python
