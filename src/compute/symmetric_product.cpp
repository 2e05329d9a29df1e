// SPDX-License-Identifier: Apache-2.0
#include "compute/reduce.h"

#include <algorithm>

namespace kedge {
namespace {

constexpr std::size_t kStrip = 4;  // columns that go through the registers together

/// The triangle on the diagonal, and a strip that is narrower than the others.
void add_plainly(const LowerColumns& a, const double* x, double* y, std::size_t first, std::size_t end,
                 std::size_t last_row) {
  for (std::size_t c = first; c < end; ++c) {
    const double* const column = a.cells + c * a.stride;
    double sum = column[c] * x[c];
    for (std::size_t r = c + 1; r < last_row; ++r) {
      y[r] += column[r] * x[c];
      sum += column[r] * x[r];
    }
    y[c] += sum;
  }
}

void add_strip(const LowerColumns& a, const double* x, double* y, std::size_t first) {
  const double* const a0 = a.cells + first * a.stride;
  const double* const a1 = a0 + a.stride;
  const double* const a2 = a1 + a.stride;
  const double* const a3 = a2 + a.stride;
  const double x0 = x[first], x1 = x[first + 1], x2 = x[first + 2], x3 = x[first + 3];
  double y0 = 0, y1 = 0, y2 = 0, y3 = 0;
  for (std::size_t r = first + kStrip; r < a.dim; ++r) {
    const double own = x[r];
    y[r] += a0[r] * x0 + a1[r] * x1 + a2[r] * x2 + a3[r] * x3;
    y0 += a0[r] * own;
    y1 += a1[r] * own;
    y2 += a2[r] * own;
    y3 += a3[r] * own;
  }
  y[first] += y0;
  y[first + 1] += y1;
  y[first + 2] += y2;
  y[first + 3] += y3;
}

}  // namespace

void set_symmetric_product(const LowerColumns& a, const double* x, double* y) {
  std::fill_n(y, a.dim, 0.0);
  for (std::size_t strip = 0; strip < a.dim; strip += kStrip) {
    const std::size_t end = std::min(strip + kStrip, a.dim);
    const bool whole = end == strip + kStrip;
    add_plainly(a, x, y, strip, end, whole ? end : a.dim);
    if (whole) add_strip(a, x, y, strip);
  }
}

}  // namespace kedge
