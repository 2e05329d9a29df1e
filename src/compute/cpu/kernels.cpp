// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/kernels.h"

#include "base/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kedge::cpu {
namespace {

constexpr std::size_t kLanes = 16;  // side by side, as one running sum or maximum cannot be made parallel

KEDGE_EVERY_PROCESSOR float sum_of(const float* x, std::size_t n) {
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] += x[i + j];
  }
  for (; i < n; ++i) lanes[0] += x[i];
  return std::accumulate(lanes, lanes + kLanes, 0.0F);
}

KEDGE_EVERY_PROCESSOR float largest(const float* x, std::size_t n) {
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, x[0]);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
  }
  for (; i < n; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  return *std::max_element(lanes, lanes + kLanes);
}

/// Four rows share what is read of x; their sums are four names, as compilers keep an array of them in memory.
KEDGE_EVERY_PROCESSOR void add_four_dots(const float* __restrict rows, std::size_t stride, const float* __restrict x,
                                         std::size_t n, float* __restrict out) {
  const float *a = rows, *b = a + stride, *c = b + stride, *d = c + stride;
  float ax = 0, bx = 0, cx = 0, dx = 0;
  for (std::size_t i = 0; i < n; ++i) {
    ax += a[i] * x[i];
    bx += b[i] * x[i];
    cx += c[i] * x[i];
    dx += d[i] * x[i];
  }
  out[0] += ax;
  out[1] += bx;
  out[2] += cx;
  out[3] += dx;
}

/// Four rows for each time `out` is read and written.
KEDGE_EVERY_PROCESSOR void add_four_rows(const float* __restrict rows, std::size_t stride, const float* weights,
                                         std::size_t n, float* __restrict out) {
  const float *a = rows, *b = a + stride, *c = b + stride, *d = c + stride;
  const float at = weights[0], bt = weights[1], ct = weights[2], dt = weights[3];
  for (std::size_t i = 0; i < n; ++i) out[i] += (a[i] * at + b[i] * bt) + (c[i] * ct + d[i] * dt);
}

KEDGE_EVERY_PROCESSOR void add_row(const float* __restrict row, float weight, std::size_t n, float* __restrict out) {
  for (std::size_t i = 0; i < n; ++i) out[i] += row[i] * weight;
}

KEDGE_EVERY_PROCESSOR void scale(std::span<const float> x, float factor, std::span<float> out) {
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = factor * x[i];
}

KEDGE_EVERY_PROCESSOR void distances(const float* r, float x_length, const float* a_lengths, float* __restrict out,
                                     std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = 2 * r[i] - x_length * x_length - a_lengths[i] * a_lengths[i];
}

/// From closeness (distance turned round) and assignments: the gradient in the assignments' place, added to sums.
KEDGE_EVERY_PROCESSOR void cover(const float* __restrict closeness, float expected, float tau, float factor,
                                 float* __restrict assigned, float* __restrict sums, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    assigned[i] = factor * assigned[i] * (1 + (closeness[i] + expected) / tau);
    sums[i] += assigned[i];
  }
}

struct AdamFactors {
  float beta1, beta2, rate, root, epsilon, keep;

  explicit AdamFactors(const AdamStep& step)
      : beta1(step.beta1),
        beta2(step.beta2),
        rate(static_cast<float>(step.learning_rate / unbias(step.beta1, *step.number))),
        root(static_cast<float>(1 / std::sqrt(unbias(step.beta2, *step.number)))),
        epsilon(step.epsilon),
        keep(1 - step.learning_rate * step.weight_decay) {}

  static double unbias(float beta, std::uint32_t number) { return 1 - std::pow(static_cast<double>(beta), number); }
  [[gnu::always_inline]] void step(float gradient, float& x, float& m, float& v) const {
    m = beta1 * m + (1 - beta1) * gradient;
    v = beta2 * v + (1 - beta2) * gradient * gradient;
    x = keep * x - rate * m / (std::sqrt(v) * root + epsilon);
  }
};

KEDGE_EVERY_PROCESSOR void adam(const float* __restrict p, const float* __restrict dp, float inner, float factor,
                                AdamFactors f, float* __restrict q, float* __restrict m, float* __restrict v,
                                std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) f.step(factor * p[i] * (dp[i] - inner), q[i], m[i], v[i]);
}

KEDGE_EVERY_PROCESSOR void plain_adam(const float* __restrict gradient, AdamFactors f, float* __restrict x,
                                      float* __restrict m, float* __restrict v, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) f.step(gradient[i], x[i], m[i], v[i]);
}

}  // namespace

KEDGE_EVERY_PROCESSOR float dot(std::span<const float> x, std::span<const float> y) {
  float sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

float length(std::span<const float> x) {
  return std::sqrt(dot(x, x));
}

void add_dots(MatrixView<const float> rows, std::span<const float> x, std::span<float> out) {
  std::size_t r = 0;
  for (; r + 4 <= rows.rows; r += 4) add_four_dots(rows.row(r).data(), rows.stride, x.data(), x.size(), &out[r]);
  for (; r < rows.rows; ++r) out[r] += dot(rows.row(r), x);
}

void add_rows(MatrixView<const float> rows, std::span<const float> weights, std::span<float> out) {
  std::size_t r = 0;
  for (; r + 4 <= rows.rows; r += 4) {
    add_four_rows(rows.row(r).data(), rows.stride, &weights[r], out.size(), out.data());
  }
  for (; r < rows.rows; ++r) add_row(rows.row(r).data(), weights[r], out.size(), out.data());
}

KEDGE_EVERY_PROCESSOR void add_differences(MatrixView<const float> rows, std::span<const float> x,
                                           std::span<float> out) {
  for (std::size_t r = 0; r < rows.rows; ++r) {
    const float* const row = rows.data + r * rows.stride;
    float sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += std::abs(row[i] - x[i]);
    out[r] += sum;
  }
}

void normalize(std::span<const float> x, float length, std::span<float> unit) {
  scale(x, length > 0 ? 1 / length : 0, unit);
}

KEDGE_EVERY_PROCESSOR void normalize_backward(std::span<const float> unit, float length, std::span<const float> dunit,
                                              float beta, std::span<float> dx) {
  if (beta == 0) std::ranges::fill(dx, 0.0F);
  const float inverse = length > 0 ? 1 / length : 0;
  const float along = inverse * dot(unit, dunit);
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = beta * dx[i] + inverse * dunit[i] - along * unit[i];
}

void softmax(std::span<const float> x, float temperature, std::span<float> out) {
  exp_below(x, largest(x.data(), x.size()), 1 / temperature, out);
  scale(out, 1 / sum_of(out.data(), out.size()), out);
}

float exponentials(std::span<float> row, float tau, std::span<float> columns) {
  exp_below_one(row, 1 / tau, columns);
  return sum_of(row.data(), row.size());
}

KEDGE_EVERY_PROCESSOR void scale_exponentials(std::span<float> row, float step, float row_sum,
                                              std::span<const float> inverse_columns) {
  const float inverse_row = 1 / row_sum;
  for (std::size_t i = 0; i < row.size(); ++i) row[i] *= step * (inverse_row + inverse_columns[i]);
}

float coverage(std::span<const float> r, float x_length, std::span<const float> a_lengths, float tau, float scale_by,
               std::span<float> dr, std::span<float> sums, std::span<float> scratch) {
  const std::size_t n = r.size();
  distances(r.data(), x_length, a_lengths.data(), scratch.data(), n);
  const auto closeness = scratch.first(n);
  exp_below(closeness, largest(closeness.data(), n), 1 / tau, dr);
  const float sum = sum_of(dr.data(), n);
  const float expected = -dot(dr, closeness) / sum;
  cover(closeness.data(), expected, tau, -2 * scale_by / sum, dr.data(), sums.data(), n);
  return expected;
}

void step_logits(std::span<const float> dout, float inner, float temperature, const AdamStep& step,
                 std::span<float> logits, std::span<float> first, std::span<float> second, std::span<float> out) {
  adam(out.data(), dout.data(), inner, 1 / temperature, AdamFactors(step), logits.data(), first.data(), second.data(),
       logits.size());
  softmax(logits, temperature, out);
}

void step_values(std::span<const float> dvalues, const AdamStep& step, std::span<float> values, std::span<float> first,
                 std::span<float> second) {
  plain_adam(dvalues.data(), AdamFactors(step), values.data(), first.data(), second.data(), values.size());
}

}  // namespace kedge::cpu
