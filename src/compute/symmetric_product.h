// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace kedge {

/// The lower triangle of a symmetric matrix by columns, `stride` apart.
struct LowerColumns {
  const double* cells;
  std::size_t dim, stride;
};

/// y = A x. Each value is read once for both its places, where BLAS reads it twice; memory is what such a product waits
/// for.
void set_symmetric_product(const LowerColumns& a, const double* x, double* y);

}  // namespace kedge
