// SPDX-License-Identifier: Apache-2.0
#include "compute/reduce.h"

#include "base/checked.h"
#include "compute/lapack_status.h"
#include "compute/threads.h"

#include <cblas.h>
#include <lapacke.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace kedge {
namespace {

constexpr std::size_t kPanel = 16;  // columns before the rest of the matrix is updated
constexpr std::size_t kLeft = 64;   // so few that LAPACK does the rest

/// A = Q T Q^T by Householder reflections, as in LAPACK's dlatrd and dsytrd: the reflections of a panel, V, are known
/// before what they do to the rest of the matrix, A - V W^T - W V^T, is written there.
class Reduction {
 public:
  Reduction(Matrix64& symmetric, std::span<double> diagonal, std::span<double> off_diagonal, std::span<double> scales)
      : cells_(symmetric.cells().data()),
        dim_(symmetric.rows()),
        diagonal_(diagonal),
        off_diagonal_(off_diagonal),
        scales_(scales),
        panel_(checked_mul(dim_, kPanel)) {}

  void run() {
    std::size_t first = 0;
    for (; first + kLeft < dim_; first += kPanel) {
      {
        const BlasCall alone(1);  // its products are too small to share out
        for (std::size_t i = 0; i < kPanel; ++i) reflect(first, i);
      }
      update(first);
    }
    const BlasCall call;
    const lapack_int left = static_cast<lapack_int>(dim_ - first);
    require_converged(LAPACKE_dsytrd(LAPACK_COL_MAJOR, 'L', left, at(first, first), stride(), &diagonal_[first],
                                     &off_diagonal_[first], &scales_[first]),
                      dim_);
  }

 private:
  [[nodiscard]] double* at(std::size_t row, std::size_t column) const { return cells_ + column * dim_ + row; }
  /// W, whose rows are those of the matrix.
  [[nodiscard]] double* w(std::size_t row, std::size_t column) { return panel_.data() + column * dim_ + row; }
  [[nodiscard]] int stride() const { return static_cast<int>(dim_); }

  /// to -= (rows of `a`, `columns` of them) x
  void take_off(const double* a, std::size_t rows, std::size_t columns, const double* x, int step, double* to) const {
    cblas_dgemv(CblasColMajor, CblasNoTrans, static_cast<int>(rows), static_cast<int>(columns), -1, a, stride(), x,
                step, 1, to, 1);
  }

  /// The reflection that clears column `first + i` below its off-diagonal value, and its part of W.
  void reflect(std::size_t first, std::size_t i) {
    const std::size_t column = first + i;
    const std::size_t below = column + 1, rows = dim_ - below;
    const int count = static_cast<int>(rows), before = static_cast<int>(i);
    if (i > 0) {  // what the panel's reflections so far do to the column
      take_off(at(column, first), rows + 1, i, w(column, 0), stride(), at(column, column));
      take_off(w(column, 0), rows + 1, i, at(column, first), stride(), at(column, column));
    }
    diagonal_[column] = *at(column, column);
    double* const v = at(below, column);
    scales_[column] = make_reflection(v, count, off_diagonal_[column]);
    double* const own = w(below, i);
    set_symmetric_product({at(below, below), rows, dim_}, v, own);  // as A was before the panel
    if (i > 0) {
      std::vector<double> along(i);
      cblas_dgemv(CblasColMajor, CblasTrans, count, before, 1, w(below, 0), stride(), v, 1, 0, along.data(), 1);
      take_off(at(below, first), rows, i, along.data(), 1, own);
      cblas_dgemv(CblasColMajor, CblasTrans, count, before, 1, at(below, first), stride(), v, 1, 0, along.data(), 1);
      take_off(w(below, 0), rows, i, along.data(), 1, own);
    }
    cblas_dscal(count, scales_[column], own, 1);
    cblas_daxpy(count, -0.5 * scales_[column] * cblas_ddot(count, own, 1, v, 1), v, 1, own, 1);
  }

  /// v becomes the vector of a reflection, 1 first, that leaves of v only its first value. Returns its scale.
  static double make_reflection(double* v, int count, double& left) {
    const double rest = cblas_dnrm2(count - 1, v + 1, 1);
    left = v[0];
    v[0] = 1;
    if (rest == 0) return 0;
    const double first = left;
    // As in LAPACK's dlarfg. std::hypot would need glibc 2.35 on x86, and wheels (scripts/wheel) get by with 2.34.
    left = -std::copysign(LAPACKE_dlapy2_work(first, rest), first);
    cblas_dscal(count - 1, 1 / (first - left), v + 1, 1);
    return (left - first) / left;
  }

  /// A -= V W^T + W V^T, below and right of the panel; then its off-diagonal values go where its ones were.
  void update(std::size_t first) {
    const std::size_t rest = first + kPanel;
    const BlasCall call;
    cblas_dsyr2k(CblasColMajor, CblasLower, CblasNoTrans, static_cast<int>(dim_ - rest), static_cast<int>(kPanel), -1,
                 at(rest, first), stride(), w(rest, 0), stride(), 1, at(rest, rest), stride());
    for (std::size_t column = first; column < rest; ++column) *at(column + 1, column) = off_diagonal_[column];
  }

  double* cells_;
  std::size_t dim_;
  std::span<double> diagonal_, off_diagonal_, scales_;
  std::vector<double> panel_;
};

}  // namespace

void reduce_to_tridiagonal(Matrix64& symmetric, std::span<double> diagonal, std::span<double> off_diagonal,
                           std::span<double> scales) {
  (void)checked_int(symmetric.rows(), "a matrix's dimension");
  Reduction(symmetric, diagonal, off_diagonal, scales).run();
}

}  // namespace kedge
