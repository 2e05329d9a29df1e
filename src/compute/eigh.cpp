// SPDX-License-Identifier: Apache-2.0
#include "compute/eigh.h"

#include "base/checked.h"
#include "base/eigen.h"
#include "compute/cuda/cuda.h"
#include "compute/lapack_status.h"
#include "compute/products.h"
#include "compute/threads.h"
#include "compute/tridiagonal.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <lapacke.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kedge {
namespace {

// Where an eighth or more is wanted, all eigenpairs of the tridiagonal matrix by divide and conquer are faster.
constexpr std::size_t kFewShare = 8;

std::vector<double> solve(char job, Matrix64& matrix) {
  std::vector<double> values(matrix.rows());
  const lapack_int dim = checked_int(matrix.rows(), "a matrix's dimension");
  const BlasCall call;
  // Row and column order are the same for a symmetric matrix, and column order needs no copy; the eigenvectors, which
  // LAPACK puts into columns, are then our rows.
  const lapack_int status = LAPACKE_dsyevd(LAPACK_COL_MAJOR, job, 'L', dim, matrix.cells().data(), dim, values.data());
  require_converged(status, matrix.rows());
  return values;
}

/// Of a tridiagonal matrix. LAPACK's own driver would take some eigenpairs by bisection, which is slower than both.
Eigenpairs largest_tridiagonal(std::vector<double> diagonal, std::vector<double> off_diagonal, std::size_t count) {
  const std::size_t dim = diagonal.size();
  const auto n = static_cast<lapack_int>(dim);
  const BlasCall call;
  if (count > dim / kFewShare) {
    Matrix64 all(dim, dim);
    require_converged(
        LAPACKE_dstedc(LAPACK_COL_MAJOR, 'I', n, diagonal.data(), off_diagonal.data(), all.cells().data(), n), dim);
    Eigenpairs largest{{diagonal.end() - static_cast<std::ptrdiff_t>(count), diagonal.end()}, Matrix64(count, dim)};
    std::ranges::copy(all.cells().last(count * dim), largest.vectors.cells().begin());
    return largest;
  }
  const auto few = static_cast<lapack_int>(count);
  Eigenpairs largest{std::vector<double>(dim), Matrix64(count, dim)};
  std::vector<lapack_int> ends(2 * dim);
  lapack_int found = 0;
  lapack_logical accurate = 1;
  require_converged(
      LAPACKE_dstemr(LAPACK_COL_MAJOR, 'V', 'I', n, diagonal.data(), off_diagonal.data(), 0, 0, n - few + 1, n, &found,
                     largest.values.data(), largest.vectors.cells().data(), n, few, ends.data(), &accurate),
      dim);
  require_converged(found == few ? 0 : 1, dim);
  largest.values.resize(count);
  return largest;
}

}  // namespace

bool on_gpu(std::size_t dim, Device device) {
  constexpr std::size_t kLeastDim = 256;
  return device == Device::cuda && dim >= kLeastDim;
}

Eigenpairs eigh(Matrix64 symmetric, Device device) {
  if (on_gpu(symmetric.rows(), device)) return cuda::eigh(symmetric);
  std::vector<double> values = solve('V', symmetric);
  return {std::move(values), std::move(symmetric)};
}

Eigenpairs eigh_with_root(Matrix64 symmetric, Matrix64& inverse_root, Device device) {
  if (on_gpu(symmetric.rows(), device)) return cuda::eigh_with_root(symmetric, inverse_root);
  Eigenpairs pairs = eigh(std::move(symmetric));
  // Row i of `vectors` scaled by values^(-1/4) on both sides of the product gives sum_i v_i v_i^T / sqrt(values_i).
  EigenRows<double> scaled = as_eigen(pairs.vectors.view());
  for (std::size_t i = 0; i < pairs.values.size(); ++i) {
    scaled.row(static_cast<Eigen::Index>(i)) /= std::pow(pairs.values[i], 0.25);
  }
  inverse_root = Matrix64(pairs.values.size(), pairs.values.size());
  set_product(inverse_root.view(), scaled.transpose(), scaled);
  return pairs;
}

Eigenpairs eigh_largest(Matrix64 symmetric, std::size_t count) {
  const std::size_t dim = symmetric.rows();
  count = std::min(count, dim);
  if (count == dim || dim < 2) return eigh(std::move(symmetric));
  const Tridiagonal tridiagonal(std::move(symmetric));
  Eigenpairs largest = largest_tridiagonal(tridiagonal.diagonal(), tridiagonal.off_diagonal(), count);
  tridiagonal.to_outside_by_row(largest.vectors.view());
  return largest;
}

std::vector<double> eigenvalues(Matrix64 symmetric) {
  return solve('N', symmetric);
}

}  // namespace kedge
