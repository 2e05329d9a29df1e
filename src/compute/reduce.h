// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <span>

namespace kedge {

/// A symmetric matrix, whose upper triangle is read, becomes tridiagonal; all is left as LAPACK's dsytrd leaves the
/// lower triangle of its columns. The same steps, but each reads the matrix once and not twice, on all threads.
void reduce_to_tridiagonal(Matrix64& symmetric, std::span<double> diagonal, std::span<double> off_diagonal,
                           std::span<double> scales);

}  // namespace kedge
