// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cuda/dense.h"

#include <vector>

namespace kedge::cuda {

/// What Dense::decompose does, by cuSOLVER. The matrix must be packed.
[[nodiscard]] std::vector<double> decompose_largest(const Solver& solver, const Block& symmetric, std::size_t count);

}  // namespace kedge::cuda
