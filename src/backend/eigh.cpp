// SPDX-License-Identifier: Apache-2.0
#include "backend/eigh.h"

#include "base/checked.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <lapacke.h>

#include <algorithm>
#include <utility>

namespace kedge {
namespace {

// From about a quarter of 1216 eigenpairs on, taking all of them is as fast.
constexpr std::size_t kFewShare = 4;

void require_converged(lapack_int status, std::size_t dim) {
  if (status == 0) return;
  throw Error(Code::failed, fmt::format("the eigendecomposition of a {0} x {0} matrix did not converge", dim));
}

std::vector<double> solve(char job, Matrix64& matrix) {
  std::vector<double> values(matrix.rows());
  const lapack_int dim = checked_int(matrix.rows(), "a matrix's dimension");
  // Row and column order are the same for a symmetric matrix, and column order needs no copy; the eigenvectors, which
  // LAPACK puts into columns, are then our rows.
  const lapack_int status = LAPACKE_dsyevd(LAPACK_COL_MAJOR, job, 'L', dim, matrix.cells().data(), dim, values.data());
  require_converged(status, matrix.rows());
  return values;
}

}  // namespace

Eigenpairs eigh(Matrix64 symmetric) {
  std::vector<double> values = solve('V', symmetric);
  return {std::move(values), std::move(symmetric)};
}

Eigenpairs eigh_largest(Matrix64 symmetric, std::size_t count) {
  const std::size_t dim = symmetric.rows();
  count = std::min(count, dim);
  if (count > dim / kFewShare) {
    Eigenpairs all = eigh(std::move(symmetric));
    Eigenpairs largest{{all.values.end() - static_cast<std::ptrdiff_t>(count), all.values.end()}, Matrix64(count, dim)};
    std::ranges::copy(all.vectors.cells().last(count * dim), largest.vectors.cells().begin());
    return largest;
  }
  const lapack_int n = checked_int(dim, "a matrix's dimension");
  const auto few = static_cast<lapack_int>(count);
  std::vector<double> diagonal(dim);
  std::vector<double> off_diagonal(dim);
  std::vector<double> reflectors(dim);
  double* const cells = symmetric.cells().data();
  require_converged(
      LAPACKE_dsytrd(LAPACK_COL_MAJOR, 'L', n, cells, n, diagonal.data(), off_diagonal.data(), reflectors.data()), dim);
  // LAPACK's driver would take some eigenpairs by bisection; relatively robust representations are much faster.
  Eigenpairs largest{std::vector<double>(dim), Matrix64(count, dim)};
  double* const vectors = largest.vectors.cells().data();
  std::vector<lapack_int> ends(2 * dim);
  lapack_int found = 0;
  lapack_logical accurate = 1;
  require_converged(
      LAPACKE_dstemr(LAPACK_COL_MAJOR, 'V', 'I', n, diagonal.data(), off_diagonal.data(), 0, 0, n - few + 1, n, &found,
                     largest.values.data(), vectors, n, few, ends.data(), &accurate),
      dim);
  require_converged(found == few ? 0 : 1, dim);
  require_converged(LAPACKE_dormtr(LAPACK_COL_MAJOR, 'L', 'L', 'N', n, few, cells, n, reflectors.data(), vectors, n),
                    dim);
  largest.values.resize(count);
  return largest;
}

std::vector<double> eigenvalues(Matrix64 symmetric) {
  return solve('N', symmetric);
}

}  // namespace kedge
