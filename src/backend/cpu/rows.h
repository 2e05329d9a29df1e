// SPDX-License-Identifier: Apache-2.0
// What the CPU backend does to one row, and how rows are shared out over threads.
#pragma once

#include "backend/backend.h"
#include "base/eigen.h"
#include "base/parallel.h"

#include <kedge/device.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace kedge::cpu {

// Fewer rows than this are not worth a thread of their own.
constexpr std::size_t kLeastRows = 64;

/// Into how many parts rows are split: a fixed number for a thread count, so that sums by part are the same every time.
inline std::size_t parts(std::size_t rows) {
  return std::clamp<std::size_t>(rows / kLeastRows, 1, threads());
}

/// work(part, row) for all rows; a part is one contiguous run of rows in one thread.
template <class Work>
void for_parts(std::size_t rows, const Work& work) {
  const std::size_t count = parts(rows);
  const std::size_t size = (rows + count - 1) / count;
  parallel_blocks(rows, size, static_cast<unsigned>(count), [&] {
    return [&](std::size_t first, std::size_t part_rows) {
      for (std::size_t i = first; i < first + part_rows; ++i) work(first / size, i);
    };
  });
}

template <class Work>
void for_rows(std::size_t rows, const Work& work) {
  for_parts(rows, [&](std::size_t, std::size_t i) { work(i); });
}

inline void normalize(std::span<const float> x, std::span<float> unit, float& length) {
  length = as_eigen(x).norm();
  if (length > 0) {
    as_eigen(unit) = as_eigen(x) / length;
  } else {
    std::ranges::fill(unit, 0.0F);
  }
}

inline void normalize_backward(std::span<const float> unit, float length, std::span<const float> dunit, float beta,
                               std::span<float> dx) {
  auto out = as_eigen(dx);
  if (beta == 0) {
    out.setZero();
  } else if (beta != 1) {
    out *= beta;
  }
  if (length > 0) out += (as_eigen(dunit) - as_eigen(unit) * as_eigen(unit).dot(as_eigen(dunit))) / length;
}

/// out = softmax(x / temperature).
inline void softmax(std::span<const float> x, float temperature, std::span<float> out) {
  auto p = as_eigen(out).array();
  p = ((as_eigen(x).array() - as_eigen(x).maxCoeff()) / temperature).exp();
  p /= p.sum();
}

/// row = exp((row - 1) * factor), added to `columns` too; returns its sum.
inline float exponentials(std::span<float> row, float factor, std::span<float> columns) {
  auto e = as_eigen(row).array();
  e = ((e - 1) * factor).exp();
  as_eigen(columns).array() += e;
  return e.sum();
}

using Row = Eigen::Array<float, 1, Eigen::Dynamic>;

/// Soft k-means distortion of one row; see Backend::coverage.
class CoverageRow {
 public:
  CoverageRow(MatrixView<const float> a_lengths, float tau, Weighted weighted)
      : squared_(static_cast<Eigen::Index>(a_lengths.rows)), tau_(tau), weighted_(weighted) {
    for (std::size_t a = 0; a < a_lengths.rows; ++a) {
      squared_[static_cast<Eigen::Index>(a)] = a_lengths.row(a)[0] * a_lengths.row(a)[0];
    }
  }

  /// Writes the gradient of the row's products, adds it to `sums`, returns the row's part of the loss.
  double operator()(std::span<const float> r, float x_length, std::span<float> dr, std::span<float> sums) const {
    thread_local Row distance;
    thread_local Row q;
    distance = x_length * x_length + squared_ - 2 * as_eigen(r).array();
    q = ((distance.minCoeff() - distance) / tau_).exp();
    q /= q.sum();
    const float expected = (q * distance).sum();
    auto out = as_eigen(dr).array();
    out = (-2 * weighted_.share * weighted_.weight) * q * (1 - (distance - expected) / tau_);
    as_eigen(sums).array() += out;
    return static_cast<double>(weighted_.share) * expected;
  }

 private:
  Row squared_;
  float tau_;
  Weighted weighted_;
};

/// Softmax backward, Adam and the next softmax of one row; see Backend::step_logits.
class AdamRow {
 public:
  AdamRow(const AdamStep& adam, float temperature) : adam_(adam), temperature_(temperature) {
    const auto step = static_cast<double>(adam.step);
    rate_ = static_cast<float>(adam.learning_rate / (1 - std::pow(static_cast<double>(adam.beta1), step)));
    root_ = static_cast<float>(1 / std::sqrt(1 - std::pow(static_cast<double>(adam.beta2), step)));
  }

  void operator()(std::span<const float> dmixture, std::span<float> logits, std::span<float> first, std::span<float> second,
                  std::span<float> mixture) const {
    const auto dp = as_eigen(dmixture).array();
    auto q = as_eigen(logits).array();
    auto p = as_eigen(mixture).array();
    const float inner = (p * dp).sum();
    auto m = as_eigen(first).array();
    auto v = as_eigen(second).array();
    p *= (dp - inner) / temperature_;  // now the gradient of the logits
    m = adam_.beta1 * m + (1 - adam_.beta1) * p;
    v = adam_.beta2 * v + (1 - adam_.beta2) * p.square();
    q = (1 - adam_.learning_rate * adam_.weight_decay) * q - rate_ * m / (v.sqrt() * root_ + adam_.epsilon);
    softmax(logits, temperature_, mixture);
  }

 private:
  AdamStep adam_;
  float temperature_, rate_ = 0, root_ = 0;
};

}  // namespace kedge::cpu
