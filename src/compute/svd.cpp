// SPDX-License-Identifier: Apache-2.0
#include "compute/svd.h"

#include "base/checked.h"
#include "compute/lapack_status.h"
#include "compute/threads.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <lapacke.h>

#include <algorithm>

namespace kedge {

SingularTriples svd(Matrix64 a) {
  const std::size_t rank = std::min(a.rows(), a.cols());
  const lapack_int rows = checked_int(a.rows(), "a matrix's rows");
  const lapack_int cols = checked_int(a.cols(), "a matrix's columns");
  const auto count = static_cast<lapack_int>(rank);
  SingularTriples result{std::vector<double>(rank), Matrix64(rank, a.rows()), Matrix64(rank, a.cols())};
  // In column order LAPACK sees the transpose: its left vectors are our right ones, already by row, and its right
  // vectors come transposed.
  Matrix64 transposed(a.rows(), rank);
  const BlasCall call;
  const lapack_int status =
      LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'S', cols, rows, a.cells().data(), cols, result.values.data(),
                     result.right.cells().data(), cols, transposed.cells().data(), count);
  require_lapack_memory(status);
  if (status != 0) {
    throw Error(Code::failed, fmt::format("the singular values of a {} x {} matrix did not converge", rows, cols));
  }
  for (std::size_t r = 0; r < a.rows(); ++r) {
    for (std::size_t i = 0; i < rank; ++i) result.left.row(i)[r] = transposed.row(r)[i];
  }
  return result;
}

}  // namespace kedge
