// SPDX-License-Identifier: Apache-2.0
// How close a kernel map comes to its two products, rows times support and that times coefficients, each as one
// cblas_sgemm of the same size on the same threads in the same run; and how long its linear system takes.
//   kedge_kernel_bench [apply] [vector] [system]      all of them by default
#include "compute/kernel.h"

#include <cblas.h>
#include <kedge/kedge.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace kedge {
namespace {

constexpr std::size_t kDim = 512, kOutputs = 300, kRounds = 5;

Matrix unit_rows(std::size_t rows, std::size_t cols, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(cols)));
  Matrix matrix(rows, cols);
  for (float& cell : matrix.cells()) cell = normal(engine);
  normalize_rows(matrix.view());
  return matrix;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// A map of random values.
struct Map {
  Map(std::size_t support, bool whitened)
      : projection(whitened ? unit_rows(kDim, kDim, 1) : Matrix()),
        rows(unit_rows(support, kDim, 2)),
        coefficients(unit_rows(support, kOutputs, 3)),
        weight(unit_rows(kOutputs, kDim, 4)),
        bias(kOutputs),
        mean(kDim) {}
  [[nodiscard]] KernelFunction function() const {
    return {2, projection.view(), rows.view(), coefficients.view(), weight.view(), bias, mean};
  }
  Matrix projection, rows, coefficients, weight;
  std::vector<float> bias, mean;
};

int as_int(std::size_t value) {
  return static_cast<int>(value);
}

void measure_apply(std::size_t support, unsigned threads_used, bool whitened) {
  const std::size_t rows = 10'000'000 / support * threads_used;
  set_threads(threads_used);
  openblas_set_num_threads(static_cast<int>(threads_used));
  const Map map(support, whitened);
  const Matrix x = unit_rows(rows, kDim, 5);
  Matrix y(rows, kOutputs), between(rows, support);
  std::vector<double> applied, multiplied;
  for (std::size_t round = 0; round < kRounds; ++round) {
    applied.push_back(seconds_of([&] { apply_kernel(map.function(), x.view(), y.view()); }));
    multiplied.push_back(seconds_of([&] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, as_int(rows), as_int(support), kDim, 1, x.cells().data(),
                  kDim, map.rows.cells().data(), kDim, 0, between.cells().data(), as_int(support));
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, as_int(rows), kOutputs, as_int(support), 1,
                  between.cells().data(), as_int(support), map.coefficients.cells().data(), kOutputs, 0,
                  y.cells().data(), kOutputs);
    }));
  }
  const double flops = 2e-9 * static_cast<double>(rows * support * (kDim + kOutputs));
  std::printf("apply   K %5zu  %u threads  %s  %6.1f GFLOP/s, the products %6.1f, ratio %.2f\n", support, threads_used,
              whitened ? "whitened" : "centred ", flops / median(applied), flops / median(multiplied),
              median(multiplied) / median(applied));
}

void measure_vector(std::size_t support) {
  const Map map(support, true);
  const Matrix x = unit_rows(100, kDim, 5);
  std::vector<float> y(kOutputs);
  std::vector<double> found;
  for (std::size_t r = 0; r < x.rows(); ++r) {
    found.push_back(seconds_of([&] { apply_kernel(map.function(), x.row(r), y); }));
  }
  std::printf("vector  K %5zu  1 thread   %6.3f ms\n", support, 1e3 * median(found));
}

void measure_system(std::size_t support, std::size_t positions) {
  const Matrix rows = unit_rows(support, kDim, 2);
  std::unique_ptr<KernelSystem> system;
  const double made = seconds_of([&] { system = make_kernel_system(rows.view(), Device::cpu); });
  double factored = 0;
  for (const double width : {1.0, 2.0}) {
    factored = seconds_of([&] {
      if (!system->factor(width, 1e-8 * static_cast<double>(support))) std::puts("no factor");
    });
  }
  std::vector<std::size_t> some(positions);
  for (std::size_t i = 0; i < positions; ++i) some[i] = i * support / positions;
  const double inverted = seconds_of([&] { (void)system->inverse_diagonal(some); });
  Matrix64 x(support, kOutputs);
  const double solved = seconds_of([&] { system->solve(x.view()); });
  std::printf(
      "system  K %5zu  %u threads  made %.2f s, factored %.2f s, diagonal of %zu %.2f s, solved for %zu %.2f s\n",
      support, threads(), made, factored, positions, inverted, kOutputs, solved);
}

}  // namespace
}  // namespace kedge

int main(int argc, char** argv) {
  const std::set<std::string> wanted(argv + 1, argv + argc);
  const auto wants = [&](const char* name) { return wanted.empty() || wanted.contains(name); };
  const unsigned all = kedge::threads();
  if (wants("apply")) {
    for (const std::size_t support : {3'000U, 10'000U}) {
      for (unsigned count = 1; count <= all; count *= 2) {
        for (const bool whitened : {false, true}) kedge::measure_apply(support, count, whitened);
      }
    }
  }
  kedge::set_threads(all);
  openblas_set_num_threads(static_cast<int>(all));
  if (wants("vector")) {
    for (const std::size_t support : {3'000U, 10'000U}) kedge::measure_vector(support);
  }
  if (wants("system")) {
    kedge::measure_system(1'000, 1'000);
    kedge::measure_system(3'000, 3'000);
    kedge::measure_system(10'000, 2'000);
  }
  return 0;
}
