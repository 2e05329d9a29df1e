// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/dense.h"
#include "backend/eigh.h"

#include <optional>

namespace kedge {

/// The `count` largest eigenpairs of a positive semidefinite matrix, ascending, by Chebyshev polynomials of it: many
/// more operations than a decomposition, but all of them products. Nothing where they do not converge to the accuracy
/// of a decomposition soon enough, as where the spectrum is flat. All of the matrix is read.
[[nodiscard]] std::optional<Eigenpairs> leading_eigenpairs(Dense& dense, const Matrix64& symmetric, std::size_t count);

}  // namespace kedge
