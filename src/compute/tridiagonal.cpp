// SPDX-License-Identifier: Apache-2.0
#include "compute/tridiagonal.h"

#include "base/checked.h"
#include "compute/lapack_status.h"
#include "compute/reduce.h"
#include "compute/threads.h"

#include <kedge/device.h>
#include <lapacke.h>

#include <algorithm>
#include <utility>

namespace kedge {
namespace {

// From this size on, LAPACK spends more time on reading the matrix than on computing. Many threads make up for it.
constexpr std::size_t kLeastReducedDim = 192;
constexpr unsigned kMostReducingThreads = 2;

}  // namespace

Tridiagonal::Tridiagonal(Matrix64 symmetric)
    : reflectors_(std::move(symmetric)),
      scales_(reflectors_.rows()),
      diagonal_(reflectors_.rows()),
      off_diagonal_(reflectors_.rows()) {
  if (dim() >= kLeastReducedDim && threads() <= kMostReducingThreads) {
    reduce_to_tridiagonal(reflectors_, diagonal_, off_diagonal_, scales_);
    return;
  }
  const lapack_int n = checked_int(dim(), "a matrix's dimension");
  const BlasCall call;
  // Our rows are LAPACK's columns, so that our upper triangle is its lower one.
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

// LAPACK sees our matrices transposed: Q x is x Q^T there, and rows are columns.
void Tridiagonal::to_outside(MatrixView<double> x) const {
  multiply('R', 'T', x);
}
void Tridiagonal::to_inside(MatrixView<double> x) const {
  multiply('R', 'N', x);
}
void Tridiagonal::to_outside_by_row(MatrixView<double> x) const {
  multiply('L', 'N', x);
}

void Tridiagonal::multiply(char side, char trans, MatrixView<double> x) const {
  const lapack_int rows = checked_int(x.rows, "a matrix's rows");
  const lapack_int cols = checked_int(x.cols, "a matrix's columns");
  const auto n = static_cast<lapack_int>(dim());
  const std::scoped_lock one_at_a_time(lock_);
  const BlasCall call;
  require_converged(LAPACKE_dormtr(LAPACK_COL_MAJOR, side, 'L', trans, cols, rows, reflectors_.cells().data(), n,
                                   scales_.data(), x.data, checked_int(x.stride, "a matrix's stride")),
                    dim());
}

/// T + k I = L D L^T with a bidiagonal L, then down and up the rows, which are long enough for vector instructions.
void Tridiagonal::solve(double k, MatrixView<const double> x, MatrixView<double> y) const {
  std::vector<double> pivots(dim());
  std::vector<double> lower(dim());
  for (std::size_t i = 0; i < dim(); ++i) {
    pivots[i] = diagonal_[i] + k - (i == 0 ? 0 : lower[i - 1] * off_diagonal_[i - 1]);
    lower[i] = i + 1 < dim() ? off_diagonal_[i] / pivots[i] : 0;
  }
  std::ranges::copy(x.row(0), y.row(0).begin());
  for (std::size_t i = 1; i < dim(); ++i) {
    const double* const from = x.row(i).data();
    const double* const above = y.row(i - 1).data();
    double* const to = y.row(i).data();
    for (std::size_t c = 0; c < x.cols; ++c) to[c] = from[c] - lower[i - 1] * above[c];
  }
  for (std::size_t i = dim(); i-- > 0;) {
    const double share = 1 / pivots[i];
    const double factor = lower[i];
    double* const to = y.row(i).data();
    const double* const below = y.row(i + 1 < dim() ? i + 1 : i).data();  // the last row has none, and a factor of 0
    for (std::size_t c = 0; c < x.cols; ++c) to[c] = share * to[c] - factor * below[c];
  }
}

}  // namespace kedge
