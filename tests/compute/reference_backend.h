// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

namespace kedge::test {

/// Every operation as the plainest loop in float64, straight from its definition: what all backends are held against.
[[nodiscard]] std::unique_ptr<Backend> make_reference_backend();

}  // namespace kedge::test
