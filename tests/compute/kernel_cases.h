// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/kernel.h"
#include "support.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kedge::test {

/// Rows of length 1.
inline Matrix unit_rows(std::size_t rows, std::size_t dim, unsigned seed) {
  Matrix result = random_matrix(rows, dim, seed);
  for (std::size_t r = 0; r < rows; ++r) {
    double square = 0;
    for (const float value : result.row(r)) square += static_cast<double>(value) * value;
    for (float& value : result.row(r)) value = static_cast<float>(value / std::sqrt(square));
  }
  return result;
}

/// A random kernel function, what it takes, and what must become of that.
struct KernelCase {
  KernelCase(std::size_t dim, std::size_t outputs, std::size_t support, float kernel_width, bool projected)
      : width(kernel_width),
        projection(projected ? random_matrix(dim, dim, 1) : Matrix()),
        rows(unit_rows(support, dim, 2)),
        coefficients(random_matrix(support, outputs, 3)),
        weight(random_matrix(outputs, dim, 4)),
        bias(row_of(outputs, 5)),
        mean(row_of(dim, 6)) {}

  [[nodiscard]] KernelFunction function() const {
    return {width, projection.view(), rows.view(), coefficients.view(), weight.view(), bias, mean};
  }

  [[nodiscard]] Matrix embeddings(std::size_t count, std::size_t cols = 0) const {
    return random_matrix(count, std::max(cols, mean.size()), 7);
  }

  /// The plain loops, in float64.
  [[nodiscard]] Matrix64 expected(const Matrix& x) const {
    Matrix64 y(x.rows(), bias.size());
    for (std::size_t r = 0; r < x.rows(); ++r) {
      const std::vector<double> unit = unit_of(x.row(r));
      for (std::size_t o = 0; o < bias.size(); ++o) y.row(r)[o] = bias[o] + dot(weight.row(o), unit);
      for (std::size_t s = 0; s < rows.rows(); ++s) {
        const double u = width * dot(rows.row(s), unit);
        const double curve = std::expm1(u) - u;
        for (std::size_t o = 0; o < bias.size(); ++o) y.row(r)[o] += curve * coefficients.row(s)[o];
      }
    }
    return y;
  }

  float width;
  Matrix projection, rows, coefficients, weight;
  std::vector<float> bias, mean;

 private:
  static std::vector<float> row_of(std::size_t count, unsigned seed) {
    const Matrix row = random_matrix(1, count, seed);
    return {row.cells().begin(), row.cells().end()};
  }

  static double dot(std::span<const float> a, std::span<const double> b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }

  [[nodiscard]] std::vector<double> unit_of(std::span<const float> x) const {
    std::vector<double> centred(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) centred[i] = static_cast<double>(x[i]) - mean[i];
    std::vector<double> unit = centred;
    for (std::size_t j = 0; j < unit.size() && projection.rows() > 0; ++j) {
      unit[j] = 0;
      for (std::size_t i = 0; i < centred.size(); ++i) unit[j] += centred[i] * projection.row(i)[j];
    }
    double square = 0;
    for (const double value : unit) square += value * value;
    for (double& value : unit) value = square > 0 ? value / std::sqrt(square) : 0;
    return unit;
  }
};

}  // namespace kedge::test
