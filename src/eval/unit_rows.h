// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

namespace kedge {

/// Every row divided by its length; a zero row stays zero, so its cosine with anything is 0.
[[nodiscard]] Matrix unit_rows(MatrixView<const float> rows);

}  // namespace kedge
