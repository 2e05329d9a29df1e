// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/strassen.h"

#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/rows.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kedge::cpu {
namespace {

// Quarters by row: 0 1 above 2 3.
template <class T>
BasicPanel<T> quarter(BasicPanel<T> p, std::size_t which) {
  const std::size_t rows = p.rows / 2, cols = p.cols / 2;
  return p.middle_rows(which / 2 * rows, rows).columns(which % 2 * cols, cols);
}

constexpr std::size_t kNone = 4;
constexpr std::size_t kLeastRows = 128;  // of a: where they are fewer, reading b is what takes time, and sums are more

/// A quarter, and one that is added to it or taken from it.
struct Sum {
  std::size_t first, second = kNone;
  float sign = 1;
};

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

/// The seven sums of b's quarters, whichever side b is on.
constexpr std::array<Sum, 7> kParts{{{0, 3, 1}, {0}, {1, 3, -1}, {2, 0, -1}, {3}, {0, 1, 1}, {2, 3, 1}}};

}  // namespace

/// One product: a sum of a's quarters times a part of b goes to one or two quarters of c.
struct StrassenMatrix::Step {
  Sum left;
  std::size_t part;
  struct To {
    std::size_t quarter = kNone;
    float sign = 1;
  } to[2];
};

const StrassenMatrix::Step* StrassenMatrix::steps(Turned turned) {
  static constexpr Step kPlain[] = {
      {{0, 3, 1}, 0, {{0, 1}, {3, 1}}}, {{2, 3, 1}, 1, {{2, 1}, {3, -1}}}, {{0}, 2, {{1, 1}, {3, 1}}},
      {{3}, 3, {{0, 1}, {2, 1}}},       {{0, 1, 1}, 4, {{0, -1}, {1, 1}}}, {{2, 0, -1}, 5, {{3, 1}, {}}},
      {{1, 3, -1}, 6, {{0, 1}, {}}},
  };
  // c^T = b a^T, where b is on the left: quarters 1 and 2 of a and c change places.
  static constexpr Step kTurned[] = {
      {{0, 3, 1}, 0, {{0, 1}, {3, 1}}},  {{0}, 6, {{1, 1}, {3, -1}}}, {{2, 3, -1}, 1, {{2, 1}, {3, 1}}},
      {{1, 0, -1}, 4, {{0, 1}, {1, 1}}}, {{3}, 5, {{0, -1}, {2, 1}}}, {{0, 2, 1}, 3, {{3, 1}, {}}},
      {{1, 3, 1}, 2, {{0, 1}, {}}},
  };
  return turned == Turned::yes ? kTurned : kPlain;
}

StrassenMatrix::StrassenMatrix(ConstPanel matrix, unsigned levels) : matrix_(matrix) {
  if (levels == 0 || matrix.rows < 2 || matrix.cols < 2) return;
  parts_.reserve(kParts.size());
  for (const Sum& sum : kParts) {
    const ConstPanel first = quarter(matrix, sum.first);
    if (sum.second == kNone) {
      parts_.emplace_back(first, levels - 1);
      continue;
    }
    Matrix made(first.rows, first.cols);
    const Panel to{made.cells().data(), made.rows(), made.cols(), made.cols()};
    add_all(first, sum.sign, quarter(matrix, sum.second), to);
    parts_.emplace_back(to, levels - 1);
    parts_.back().own_ = std::move(made);  // its cells stay where they are
  }
}

unsigned StrassenMatrix::levels_for(std::size_t rows, std::size_t cols, unsigned threads) {
  // A second level would take twice as much memory again, and no time off.
  constexpr std::size_t kEnough = std::size_t{300} * 1000, kMostSums = std::size_t{1} << 28;
  const std::size_t quarter = rows * cols / 4;
  return quarter / threads >= kEnough && quarter * 5 <= kMostSums ? 1 : 0;
}

void StrassenMatrix::multiply_nn(ConstPanel a, Panel c) {
  multiply<Turned::no>(a, 0, c);
}

void StrassenMatrix::multiply_nt(ConstPanel a, Panel c) {
  multiply<Turned::yes>(a, 0, c);
}

template <StrassenMatrix::Turned turned>
void StrassenMatrix::multiply_plainly(ConstPanel a, ConstPanel b, float beta, Panel c) {
  if (c.rows == 0 || c.cols == 0) return;
  gemm(CblasNoTrans, turned == Turned::yes ? CblasTrans : CblasNoTrans, a.cols, 1, a, b, beta, c);
}

/// The even part of all sizes by seven products, then what is left of the inner size, of the columns and of the rows.
template <StrassenMatrix::Turned turned>
void StrassenMatrix::multiply(ConstPanel a, float beta, Panel c) {
  if (parts_.empty() || a.rows < kLeastRows) return multiply_plainly<turned>(a, matrix_, beta, c);
  const std::size_t rows = a.rows / 2 * 2, inner = a.cols / 2 * 2, cols = c.cols / 2 * 2;
  multiply_even_part<turned>(a.top_rows(rows).columns(0, inner), beta, c.top_rows(rows).columns(0, cols));
  const auto part_of_b = [&](std::size_t first, std::size_t count, std::size_t column, std::size_t columns) {
    return turned == Turned::yes ? matrix_.middle_rows(column, columns).columns(first, count)
                                 : matrix_.middle_rows(first, count).columns(column, columns);
  };
  if (inner < a.cols) {
    multiply_plainly<turned>(a.top_rows(rows).columns(inner, 1), part_of_b(inner, 1, 0, cols), 1,
                             c.top_rows(rows).columns(0, cols));
  }
  if (cols < c.cols) {
    multiply_plainly<turned>(a.top_rows(rows), part_of_b(0, a.cols, cols, 1), beta, c.top_rows(rows).columns(cols, 1));
  }
  if (rows < a.rows) multiply_plainly<turned>(a.middle_rows(rows, 1), matrix_, beta, c.middle_rows(rows, 1));
}

/// What a step makes for two quarters of c goes to the first of them at once, if nothing is there yet.
template <StrassenMatrix::Turned turned>
void StrassenMatrix::multiply_even_part(ConstPanel a, float beta, Panel c) {
  const Panel sum = scratch(left_, a.rows / 2, a.cols / 2), product = scratch(made_, c.rows / 2, c.cols / 2);
  bool begun[kNone] = {beta != 0, beta != 0, beta != 0, beta != 0};
  for (const Step* step = steps(turned); step != steps(turned) + kParts.size(); ++step) {
    ConstPanel factor = quarter(a, step->left.first);
    if (step->left.second != kNone) {
      add_all(factor, step->left.sign, quarter(a, step->left.second), sum);
      factor = sum;
    }
    StrassenMatrix& part = parts_[step->part];
    const auto [first, second] = step->to;
    const Panel to = quarter(c, first.quarter);
    if (second.quarter == kNone) {
      part.multiply<turned>(factor, 1, to);
      continue;
    }
    const bool there = std::exchange(begun[first.quarter], true);
    const Panel made = there ? product : to;
    part.multiply<turned>(factor, 0, made);
    if (there) add_all(to, first.sign, made, to);
    const Panel other = quarter(c, second.quarter);
    if (std::exchange(begun[second.quarter], true)) {
      add_all(other, second.sign, made, other);
    } else {
      for_rows(other.rows, other.cols, [&](std::size_t i) {
        std::copy_n(made.data + i * made.stride, made.cols, other.data + i * other.stride);
      });
    }
  }
}

}  // namespace kedge::cpu
