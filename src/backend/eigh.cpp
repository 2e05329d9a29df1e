// SPDX-License-Identifier: Apache-2.0
#include "backend/eigh.h"

#include "base/checked.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <lapacke.h>

#include <utility>

namespace kedge {
namespace {

std::vector<double> solve(char job, Matrix64& matrix) {
  std::vector<double> values(matrix.rows());
  const lapack_int dim = checked_int(matrix.rows(), "a matrix's dimension");
  // Row and column order are the same for a symmetric matrix, and column order needs no copy; the eigenvectors, which
  // LAPACK puts into columns, are then our rows.
  const lapack_int status = LAPACKE_dsyevd(LAPACK_COL_MAJOR, job, 'L', dim, matrix.cells().data(), dim, values.data());
  if (status != 0) {
    throw Error(Code::failed,
                fmt::format("the eigendecomposition of a {0} x {0} matrix did not converge", matrix.rows()));
  }
  return values;
}

}  // namespace

Eigenpairs eigh(Matrix64 symmetric) {
  std::vector<double> values = solve('V', symmetric);
  return {std::move(values), std::move(symmetric)};
}

std::vector<double> eigenvalues(Matrix64 symmetric) {
  return solve('N', symmetric);
}

}  // namespace kedge
