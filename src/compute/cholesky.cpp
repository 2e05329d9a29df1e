// SPDX-License-Identifier: Apache-2.0
#include "compute/cholesky.h"

#include "base/checked.h"
#include "compute/lapack_status.h"
#include "compute/threads.h"

#include <cblas.h>
#include <lapacke.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kedge {
namespace {

/// The largest sum of absolute values over a row.
double norm_of(const Matrix64& matrix) {
  double largest = 0;
  for (std::size_t r = 0; r < matrix.rows(); ++r) {
    double sum = 0;
    for (const double value : matrix.row(r)) sum += std::abs(value);
    largest = std::max(largest, sum);
  }
  return largest;
}

}  // namespace

Cholesky::Cholesky(Matrix64 symmetric) : factor_(std::move(symmetric)), norm_(norm_of(factor_)) {
  const lapack_int dim = checked_int(factor_.rows(), "a matrix's dimension");
  // Row and column order are the same for a symmetric matrix, and column order needs no copy.
  const BlasCall call;
  const lapack_int status = LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'L', dim, factor_.cells().data(), dim);
  require_lapack_memory(status);
  exists_ = status == 0;
}

double Cholesky::reciprocal_condition() const {
  const auto dim = static_cast<lapack_int>(factor_.rows());
  double result = 0;
  const BlasCall call;
  require_lapack_memory(LAPACKE_dpocon(LAPACK_COL_MAJOR, 'L', dim, factor_.cells().data(), dim, norm_, &result));
  return result;
}

void Cholesky::solve(MatrixView<double> x) const {
  const auto dim = static_cast<lapack_int>(factor_.rows());
  const BlasCall call;
  // Our rows are LAPACK's columns.
  require_lapack_memory(LAPACKE_dpotrs(LAPACK_COL_MAJOR, 'L', dim, checked_int(x.rows, "a matrix's rows"),
                                       factor_.cells().data(), dim, x.data,
                                       checked_int(x.stride, "a matrix's stride")));
}

// Our rows are LAPACK's columns, so BLAS sees x transposed.
void Cholesky::divide_rows(MatrixView<double> x, Side side) const {
  const int dim = static_cast<int>(factor_.rows());
  const BlasCall call;
  cblas_dtrsm(CblasColMajor, CblasLeft, CblasLower, side == Side::plain ? CblasNoTrans : CblasTrans, CblasNonUnit, dim,
              checked_int(x.rows, "a matrix's rows"), 1, factor_.cells().data(), dim, x.data,
              checked_int(x.stride, "a matrix's stride"));
}

void Cholesky::divide_columns(MatrixView<double> x, Side side) const {
  const int dim = static_cast<int>(factor_.rows());
  const BlasCall call;
  cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, side == Side::plain ? CblasTrans : CblasNoTrans, CblasNonUnit,
              checked_int(x.cols, "a matrix's columns"), dim, 1, factor_.cells().data(), dim, x.data,
              checked_int(x.stride, "a matrix's stride"));
}

}  // namespace kedge
