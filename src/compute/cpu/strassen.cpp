// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/strassen.h"

#include "compute/cpu/gemm.h"
#include "compute/cpu/kernels.h"
#include "compute/cpu/rows.h"

#include <cstddef>
#include <vector>

namespace kedge::cpu {
namespace {

/// Quarters by row: 0 1 above 2 3.
template <class T>
BasicPanel<T> quarter(BasicPanel<T> p, std::size_t which) {
  const std::size_t rows = p.rows / 2, cols = p.cols / 2;
  return p.middle_rows(which / 2 * rows, rows).columns(which % 2 * cols, cols);
}

constexpr std::size_t kLeastRows = 128;  // of a: where they are fewer, reading b is what takes time, and sums are more

template <class T>
MatrixView<T> view(BasicPanel<T> p) {
  return {p.data, p.rows, p.cols, p.stride};
}

void add_all(ConstPanel a, float sign, ConstPanel b, Panel to) {
  for_rows(to.rows, to.cols, [&](std::size_t i) { add(view(a).row(i), sign, view(b).row(i), view(to).row(i)); });
}

/// Grows if need be, and is not cleared.
Panel scratch(std::vector<float>& cells, std::size_t rows, std::size_t cols) {
  if (cells.size() < rows * cols) cells.resize(rows * cols);
  return {cells.data(), rows, cols, cols};
}

void multiply_plainly(CBLAS_TRANSPOSE turn_b, ConstPanel a, ConstPanel b, float beta, Panel c) {
  if (c.rows > 0 && c.cols > 0) gemm(CblasNoTrans, turn_b, a.cols, 1, a, b, beta, c);
}

/// Of b, in the order in which they are kept: three of its quarters, and the four sums, which begin with kRight.
enum Part : std::size_t {
  kFirst,      // b0
  kLowerLeft,  // b2
  kLast,       // b3
  kRight,      // b1 - b0
  kThree,      // b3 - (b1 - b0)
  kUp,         // b1 - b3
  kAll,        // b2 - (b3 - (b1 - b0))
};

}  // namespace

StrassenMatrix::StrassenMatrix(ConstPanel matrix, bool with_sums) : matrix_(matrix) {
  if (!with_sums || matrix.rows < 2 || matrix.cols < 2) return;
  const ConstPanel b0 = quarter(matrix, 0), b1 = quarter(matrix, 1), b2 = quarter(matrix, 2), b3 = quarter(matrix, 3);
  parts_ = {b0, b2, b3};
  const auto subtract = [&](ConstPanel from, ConstPanel what) {
    Matrix& made = sums_.emplace_back(from.rows, from.cols);
    const Panel to{made.cells().data(), made.rows(), made.cols(), made.cols()};
    add_all(from, -1, what, to);
    parts_.push_back(to);  // its cells stay where they are
  };
  subtract(b1, b0);
  subtract(b3, parts_[kRight]);
  subtract(b1, b3);
  subtract(b2, parts_[kThree]);
}

bool StrassenMatrix::pays(std::size_t rows, std::size_t cols, unsigned threads) {
  constexpr std::size_t kEnough = std::size_t{300} * 1000, kMostSums = std::size_t{1} << 28;
  const std::size_t quarter = rows * cols / 4;
  return quarter / threads >= kEnough && quarter * 4 <= kMostSums;
}

void StrassenMatrix::multiply_nn(ConstPanel a, Panel c) {
  multiply<Turned::no>(a, c);
}

void StrassenMatrix::multiply_nt(ConstPanel a, Panel c) {
  multiply<Turned::yes>(a, c);
}

/// The even part of all sizes by seven products, then what is left of the inner size, of the columns and of the rows.
template <StrassenMatrix::Turned turned>
void StrassenMatrix::multiply(ConstPanel a, Panel c) {
  constexpr CBLAS_TRANSPOSE kTurn = turned == Turned::yes ? CblasTrans : CblasNoTrans;
  if (parts_.empty() || a.rows < kLeastRows) return multiply_plainly(kTurn, a, matrix_, 0, c);
  const std::size_t rows = a.rows / 2 * 2, inner = a.cols / 2 * 2, cols = c.cols / 2 * 2;
  const Panel even = c.top_rows(rows).columns(0, cols);
  multiply_even_part<turned>(a.top_rows(rows).columns(0, inner), even);
  const auto part_of_b = [&](std::size_t first, std::size_t count, std::size_t column, std::size_t columns) {
    return turned == Turned::yes ? matrix_.middle_rows(column, columns).columns(first, count)
                                 : matrix_.middle_rows(first, count).columns(column, columns);
  };
  if (inner < a.cols) {
    multiply_plainly(kTurn, a.top_rows(rows).columns(inner, 1), part_of_b(inner, 1, 0, cols), 1, even);
  }
  if (cols < c.cols) {
    multiply_plainly(kTurn, a.top_rows(rows), part_of_b(0, a.cols, cols, 1), 0, c.top_rows(rows).columns(cols, 1));
  }
  if (rows < a.rows) multiply_plainly(kTurn, a.middle_rows(rows, 1), matrix_, 0, c.middle_rows(rows, 1));
}

/// With b turned, let its quarters change places across the middle: then its sums are those of the plain b again, two
/// of them in each other's place. So do the left and right halves of a and of c.
template <StrassenMatrix::Turned turned>
void StrassenMatrix::multiply_even_part(ConstPanel a, Panel c) {
  constexpr bool kPlain = turned == Turned::no;
  constexpr std::size_t kLeft = kPlain ? 0 : 1;
  const auto at = [](auto panel, std::size_t which) { return quarter(panel, which ^ kLeft); };
  const ConstPanel a0 = at(a, 0), a1 = at(a, 1), a2 = at(a, 2), a3 = at(a, 3);
  const Panel c0 = at(c, 0), c1 = at(c, 1), c2 = at(c, 2), c3 = at(c, 3);
  const Panel sum = scratch(left_, a0.rows, a0.cols);
  const auto multiply_part = [&](ConstPanel left, Part part, float beta, Panel to) {
    multiply_plainly(kPlain ? CblasNoTrans : CblasTrans, left, parts_[part], beta, to);
  };

  multiply_part(a0, kPlain ? kFirst : kLast, 0, c0);
  add_all(a2, -1, a0, sum);
  multiply_part(sum, kPlain ? kUp : kRight, 0, c2);
  add_all(a2, 1, a3, sum);
  multiply_part(sum, kPlain ? kRight : kUp, 0, c3);
  add_all(sum, -1, a0, sum);
  multiply_part(sum, kThree, 0, c1);
  for_rows(c0.rows, 4 * c0.cols,
           [&](std::size_t i) { combine(view(c0).row(i), view(c1).row(i), view(c2).row(i), view(c3).row(i)); });
  add_all(a1, -1, sum, sum);
  multiply_part(sum, kPlain ? kLast : kFirst, 1, c1);
  multiply_part(a1, kLowerLeft, 1, c0);
  multiply_part(a3, kAll, 1, c2);
}

}  // namespace kedge::cpu
