// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/kernels.h"

#include "base/every_processor.h"
#include "compute/cpu/exponentials.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kedge::cpu {
namespace {

KEDGE_EVERY_PROCESSOR float dot_of(const float* a, const float* b, std::size_t n) {
  float sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

constexpr std::size_t kLanes = 16;  // side by side, as one running sum or maximum cannot be made parallel

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

KEDGE_EVERY_PROCESSOR float difference(const float* a, const float* b, std::size_t n) {
  float sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += std::abs(a[i] - b[i]);
  return sum;
}

KEDGE_EVERY_PROCESSOR float sum_of(const float* x, std::size_t n) {
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] += x[i + j];
  }
  for (; i < n; ++i) lanes[0] += x[i];
  return std::accumulate(lanes, lanes + kLanes, 0.0F);
}

KEDGE_EVERY_PROCESSOR void add_scaled(float* __restrict out, float beta, float alpha, const float* __restrict a,
                                      float gamma, const float* __restrict b, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = beta * out[i] + alpha * a[i] + gamma * b[i];
}

KEDGE_EVERY_PROCESSOR void scale(const float* x, float factor, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = factor * x[i];
}

KEDGE_EVERY_PROCESSOR float largest(const float* x, std::size_t n) {
  float lanes[kLanes];
  for (std::size_t j = 0; j < kLanes; ++j) lanes[j] = x[0];
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
  }
  for (; i < n; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  return *std::max_element(lanes, lanes + kLanes);
}

KEDGE_EVERY_PROCESSOR void scale_by_sums(float* __restrict row, float step, float inverse_row,
                                         const float* __restrict inverse_columns, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) row[i] *= step * (inverse_row + inverse_columns[i]);
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
};

KEDGE_EVERY_PROCESSOR void adam(const float* __restrict p, const float* __restrict dp, float inner, float factor,
                                AdamFactors f, float* __restrict q, float* __restrict m, float* __restrict v,
                                std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float gradient = factor * p[i] * (dp[i] - inner);
    m[i] = f.beta1 * m[i] + (1 - f.beta1) * gradient;
    v[i] = f.beta2 * v[i] + (1 - f.beta2) * gradient * gradient;
    q[i] = f.keep * q[i] - f.rate * m[i] / (std::sqrt(v[i]) * f.root + f.epsilon);
  }
}

KEDGE_EVERY_PROCESSOR void plain_adam(const float* __restrict gradient, AdamFactors f, float* __restrict x,
                                      float* __restrict m, float* __restrict v, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    m[i] = f.beta1 * m[i] + (1 - f.beta1) * gradient[i];
    v[i] = f.beta2 * v[i] + (1 - f.beta2) * gradient[i] * gradient[i];
    x[i] = f.keep * x[i] - f.rate * m[i] / (std::sqrt(v[i]) * f.root + f.epsilon);
  }
}

AdamFactors factors_of(const AdamStep& step) {
  const auto count = static_cast<double>(*step.number);
  const double unbias1 = 1 - std::pow(static_cast<double>(step.beta1), count);
  const double unbias2 = 1 - std::pow(static_cast<double>(step.beta2), count);
  return {step.beta1,
          step.beta2,
          static_cast<float>(step.learning_rate / unbias1),
          static_cast<float>(1 / std::sqrt(unbias2)),
          step.epsilon,
          1 - step.learning_rate * step.weight_decay};
}

}  // namespace

void add_dots(MatrixView<const float> rows, std::span<const float> x, std::span<float> out) {
  std::size_t r = 0;
  for (; r + 4 <= rows.rows; r += 4) {
    add_four_dots(rows.data + r * rows.stride, rows.stride, x.data(), x.size(), &out[r]);
  }
  for (; r < rows.rows; ++r) out[r] += dot_of(rows.row(r).data(), x.data(), x.size());
}

void add_rows(MatrixView<const float> rows, std::span<const float> weights, std::span<float> out) {
  std::size_t r = 0;
  for (; r + 4 <= rows.rows; r += 4) {
    add_four_rows(rows.data + r * rows.stride, rows.stride, &weights[r], out.size(), out.data());
  }
  for (; r < rows.rows; ++r) add_row(rows.row(r).data(), weights[r], out.size(), out.data());
}

void add_differences(MatrixView<const float> rows, std::span<const float> x, std::span<float> out) {
  for (std::size_t r = 0; r < rows.rows; ++r) out[r] += difference(rows.row(r).data(), x.data(), x.size());
}

float dot(std::span<const float> x, std::span<const float> y) {
  return dot_of(x.data(), y.data(), x.size());
}

float length(std::span<const float> x) {
  return std::sqrt(dot(x, x));
}

void normalize(std::span<const float> x, float length, std::span<float> unit) {
  scale(x.data(), length > 0 ? 1 / length : 0, unit.data(), x.size());
}

void normalize_backward(std::span<const float> unit, float length, std::span<const float> dunit, float beta,
                        std::span<float> dx) {
  if (beta == 0) std::ranges::fill(dx, 0.0F);
  const float inverse = length > 0 ? 1 / length : 0;
  const float along = dot(unit, dunit);
  add_scaled(dx.data(), beta, inverse, dunit.data(), -inverse * along, unit.data(), unit.size());
}

void softmax(std::span<const float> x, float temperature, std::span<float> out) {
  exp_below(x, largest(x.data(), x.size()), 1 / temperature, out);
  scale(out.data(), 1 / sum_of(out.data(), out.size()), out.data(), x.size());
}

float exponentials(std::span<float> row, float tau, std::span<float> columns) {
  exp_below_one(row, 1 / tau, columns);
  return sum_of(row.data(), row.size());
}

void scale_exponentials(std::span<float> row, float step, float row_sum, std::span<const float> inverse_columns) {
  scale_by_sums(row.data(), step, 1 / row_sum, inverse_columns.data(), row.size());
}

float coverage(std::span<const float> r, float x_length, std::span<const float> a_lengths, float tau, float scale_by,
               std::span<float> dr, std::span<float> sums, std::span<float> scratch) {
  const std::size_t n = r.size();
  float* closeness = scratch.data();
  float* q = dr.data();
  distances(r.data(), x_length, a_lengths.data(), closeness, n);
  exp_below({closeness, n}, largest(closeness, n), 1 / tau, dr);
  const float sum = sum_of(q, n);
  const float expected = -dot_of(q, closeness, n) / sum;
  cover(closeness, expected, tau, -2 * scale_by / sum, q, sums.data(), n);
  return expected;
}

void step_logits(std::span<const float> dout, float inner, float temperature, const AdamStep& step,
                 std::span<float> logits, std::span<float> first, std::span<float> second, std::span<float> out) {
  adam(out.data(), dout.data(), inner, 1 / temperature, factors_of(step), logits.data(), first.data(), second.data(),
       logits.size());
  softmax(logits, temperature, out);
}

void step_values(std::span<const float> dvalues, const AdamStep& step, std::span<float> values, std::span<float> first,
                 std::span<float> second) {
  plain_adam(dvalues.data(), factors_of(step), values.data(), first.data(), second.data(), values.size());
}

}  // namespace kedge::cpu
