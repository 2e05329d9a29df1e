// SPDX-License-Identifier: Apache-2.0
// Our rows are LAPACK's columns: it sees every matrix transposed, our upper triangle as its lower one, and leaves
// eigenvectors, its columns, as our rows. Nothing is copied.
#include "compute/lapack.h"

#include "base/arithmetic.h"
#include "base/wording.h"
#include "compute/cuda/cuda.h"
#include "compute/products.h"
#include "compute/threads.h"

#include <cblas.h>
#include <lapacke.h>

#include <algorithm>
#include <cmath>
#include <new>

namespace kedge {
namespace {

lapack_int size_of(std::size_t value) {
  return checked_int(value, "a matrix's dimension");
}

/// LAPACKE also refuses a matrix that holds NaN.
void require_converged(lapack_int status, std::size_t dim) {
  require_lapack_memory(status);
  if (status == 0) return;
  fail("the eigendecomposition of a {0} x {0} matrix did not converge", dim);
}

std::vector<double> solve(char job, Matrix64& matrix) {
  std::vector<double> values(matrix.rows());
  const lapack_int dim = size_of(matrix.rows());
  const BlasCall call;
  require_converged(LAPACKE_dsyevd(LAPACK_COL_MAJOR, job, 'L', dim, matrix.cells().data(), dim, values.data()),
                    matrix.rows());
  return values;
}

/// Of a tridiagonal matrix. LAPACK's own driver would take some eigenpairs by bisection, which is slower than both.
Eigenpairs largest_tridiagonal(std::vector<double> diagonal, std::vector<double> off_diagonal, std::size_t count) {
  constexpr std::size_t kFewShare = 8;  // for an eighth or more, finding all by divide and conquer is faster
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

/// x = R^-1 x or R^-T x for the columns that LAPACK sees (left), or the same from the right.
void divide(const Matrix64& factor, CBLAS_SIDE side, CBLAS_TRANSPOSE order, MatrixView<double> x) {
  const BlasCall call;
  cblas_dtrsm(CblasColMajor, side, CblasLower, order, CblasNonUnit, size_of(x.cols), size_of(x.rows), 1,
              factor.cells().data(), size_of(factor.rows()), x.data, size_of(x.stride));
}

}  // namespace

void require_lapack_memory(int status) {
  if (status == LAPACK_WORK_MEMORY_ERROR || status == LAPACK_TRANSPOSE_MEMORY_ERROR) throw std::bad_alloc();
}

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

SingularTriples svd(Matrix64 a) {
  const std::size_t rank = std::min(a.rows(), a.cols());
  const lapack_int rows = size_of(a.rows()), cols = size_of(a.cols());
  SingularTriples result{std::vector<double>(rank), Matrix64(rank, a.rows()), Matrix64(rank, a.cols())};
  Matrix64 left(a.rows(), rank);  // LAPACK's right vectors, which come transposed
  const BlasCall call;
  const lapack_int status =
      LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'S', cols, rows, a.cells().data(), cols, result.values.data(),
                     result.right.cells().data(), cols, left.cells().data(), static_cast<lapack_int>(rank));
  require_lapack_memory(status);
  if (status != 0) {
    fail("the singular values of a {} x {} matrix did not converge", rows, cols);
  }
  as_eigen(result.left.view()) = as_eigen(left.view()).transpose();
  return result;
}

Cholesky::Cholesky(Matrix64 symmetric) : factor_(std::move(symmetric)) {
  const lapack_int dim = size_of(factor_.rows());
  double* const cells = factor_.cells().data();
  const BlasCall call;
  norm_ = LAPACKE_dlange(LAPACK_COL_MAJOR, '1', dim, dim, cells, dim);
  const lapack_int status = LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'L', dim, cells, dim);
  require_lapack_memory(status);
  exists_ = status == 0;
}

double Cholesky::reciprocal_condition() const {
  const lapack_int dim = size_of(factor_.rows());
  double result = 0;
  const BlasCall call;
  require_lapack_memory(LAPACKE_dpocon(LAPACK_COL_MAJOR, 'L', dim, factor_.cells().data(), dim, norm_, &result));
  return result;
}

void Cholesky::solve(MatrixView<double> x) const {
  const lapack_int dim = size_of(factor_.rows());
  const BlasCall call;
  require_lapack_memory(LAPACKE_dpotrs(LAPACK_COL_MAJOR, 'L', dim, size_of(x.rows), factor_.cells().data(), dim, x.data,
                                       size_of(x.stride)));
}

void Cholesky::divide_rows(MatrixView<double> x, Side side) const {
  divide(factor_, CblasLeft, side == Side::plain ? CblasNoTrans : CblasTrans, x);
}

void Cholesky::divide_columns(MatrixView<double> x, Side side) const {
  divide(factor_, CblasRight, side == Side::plain ? CblasTrans : CblasNoTrans, x);
}

Tridiagonal::Tridiagonal(Matrix64 symmetric)
    : reflectors_(std::move(symmetric)),
      scales_(reflectors_.rows()),
      diagonal_(reflectors_.rows()),
      off_diagonal_(reflectors_.rows()) {
  const lapack_int n = size_of(dim());
  const BlasCall call;
  require_converged(LAPACKE_dsytrd(LAPACK_COL_MAJOR, 'L', n, reflectors_.cells().data(), n, diagonal_.data(),
                                   off_diagonal_.data(), scales_.data()),
                    dim());
}

std::vector<double> Tridiagonal::eigenvalues() const {
  std::vector<double> values = diagonal_;
  std::vector<double> off = off_diagonal_;
  const BlasCall call;
  require_converged(LAPACKE_dsterf(static_cast<lapack_int>(dim()), values.data(), off.data()), dim());
  return values;
}

void Tridiagonal::multiply(char side, char trans, MatrixView<double> x) const {
  const std::scoped_lock one_at_a_time(lock_);
  const BlasCall call;
  require_converged(
      LAPACKE_dormtr(LAPACK_COL_MAJOR, side, 'L', trans, size_of(x.cols), size_of(x.rows), reflectors_.cells().data(),
                     static_cast<lapack_int>(dim()), scales_.data(), x.data, size_of(x.stride)),
      dim());
}

/// T + k I = L D L^T with a bidiagonal L, then down and up the rows, which are long enough for vector instructions.
void Tridiagonal::solve(double k, MatrixView<const double> x, MatrixView<double> y) const {
  std::vector<double> pivots(dim()), lower(dim());
  for (std::size_t i = 0; i < dim(); ++i) {
    pivots[i] = diagonal_[i] + k - (i == 0 ? 0 : lower[i - 1] * off_diagonal_[i - 1]);
    lower[i] = i + 1 < dim() ? off_diagonal_[i] / pivots[i] : 0;
  }
  const auto row = [&](std::size_t i) { return as_eigen(y.row(i)); };
  row(0) = as_eigen(x.row(0));
  for (std::size_t i = 1; i < dim(); ++i) row(i) = as_eigen(x.row(i)) - lower[i - 1] * row(i - 1);
  row(dim() - 1) /= pivots.back();
  for (std::size_t i = dim() - 1; i-- > 0;) row(i) = row(i) / pivots[i] - lower[i] * row(i + 1);
}

}  // namespace kedge
