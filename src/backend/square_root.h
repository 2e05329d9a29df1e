// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/dense.h"

#include <optional>

namespace kedge {

/// The positive square root of a positive definite matrix by products alone (Newton-Schulz): on a GPU in a small part
/// of the time that eigenvectors take. Nothing where the matrix is too near to singular for it.
[[nodiscard]] std::optional<Matrix64> square_root(Dense& dense, const Matrix64& symmetric);

}  // namespace kedge
