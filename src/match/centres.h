// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/random.h"

#include <kedge/matrix.h>

#include <cstddef>

namespace kedge {

/// The centres of k-means of rows that are not all the same: seeded by k-means++, the best of 4 candidates each time,
/// then Lloyd. On the calling thread. FAISS seeds at random, from which assignments are found less often.
[[nodiscard]] Matrix find_centres(MatrixView<const float> rows, std::size_t count, Random& random);

}  // namespace kedge
