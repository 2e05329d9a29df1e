// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "arrays.h"
#include "inputs.h"

#include <functional>
#include <optional>
#include <string>

namespace kedge::python {

/// A function of rows, such as a map, and how messages call the space its rows come from.
struct RowFunction {
  std::string space;
  std::size_t input_dim = 0, output_dim = 0;
  bool affine = true;  ///< then all rows in one product; otherwise in blocks, since each takes memory of its own
  std::function<void(MatrixView<const float>, MatrixView<float>)> apply;
};

/// What becomes of the rows of x, as a numpy array, or as a tensor where x is one; in `out` where that is not None.
/// float32 rows are read where they lie. Throws Error(Code::bad_argument) for rows that do not fit or are not finite,
/// and for an `out` that cannot hold the result as it is.
/// With `normalize` results have length 1.
[[nodiscard]] nb::object apply_to(const RowFunction& function, nb::handle x, nb::handle out, bool normalize);

}  // namespace kedge::python
