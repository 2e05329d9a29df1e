// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <vector>

namespace kedge {

/// a = left^T diag(values) right: row i of `left` and of `right` belong to values[i], the largest first.
struct SingularTriples {
  std::vector<double> values;
  Matrix64 left, right;
};

/// All min(rows, cols) of them, by LAPACK's divide and conquer.
[[nodiscard]] SingularTriples svd(Matrix64 a);

}  // namespace kedge
