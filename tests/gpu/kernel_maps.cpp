// SPDX-License-Identifier: Apache-2.0
// Kernel functions and their linear systems on a GPU, against the processor.
#include "compute/kernel.h"
#include "compute/operation_cases.h"
#include "compute/row_worker.h"
#include "gpu/check.h"
#include "gpu/near.h"

#include <fmt/format.h>
#include <kedge/relative_map.h>

#include <utility>

namespace kedge::test {
namespace {

Matrix unit_rows(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  Matrix matrix = quick_random(rows, cols, seed);
  normalize_rows(matrix.view());
  return matrix;
}

void check_function(std::size_t dim, std::size_t outputs, std::size_t support, std::vector<CheckPromise>& promises) {
  constexpr std::size_t kRows = 9001;  // more than are mapped at once
  const Matrix projection = quick_random(dim, dim, 1), rows = unit_rows(support, dim, 2);
  const Matrix coefficients = quick_random(support, outputs, 3), weight = quick_random(outputs, dim, 4);
  const Matrix bias = quick_random(1, outputs, 5), mean = quick_random(1, dim, 6), x = quick_random(kRows, dim, 7);
  const KernelFunction function{2,           projection.view(), rows.view(), coefficients.view(), weight.view(),
                                bias.row(0), mean.row(0)};
  Matrix wanted(kRows, outputs);
  apply_kernel(function, x.view(), wanted.view());
  for (const auto& [precision, tolerance] :
       {std::pair{Precision::fp32, kFp32Tolerance}, std::pair{Precision::tf32, 10 * kTf32Tolerance}}) {
    const auto worker = kernel_workers(function, Device::cuda, precision)(kRows);
    std::ranges::copy(x.cells(), worker->input(kRows).data);
    const MatrixView<float> found = worker->apply(kRows);
    promises.push_back(near<float>(fmt::format("kernel map, {} support rows, {}", support, to_string(precision)),
                                   std::span(found.data, kRows * outputs), wanted.cells(), tolerance));
  }
}

/// Both are float64, so they differ by the order of sums alone, times the condition, which a small ridge makes large.
void check_system(std::size_t count, std::vector<CheckPromise>& promises) {
  constexpr std::size_t kColumns = 37;
  Matrix rows = unit_rows(count, 40, 8);
  std::ranges::fill(rows.row(1), 0.0F);
  std::ranges::copy(rows.row(5), rows.row(count - 2).begin());
  const auto cpu = make_kernel_system(rows.view(), Device::cpu), gpu = make_kernel_system(rows.view(), Device::cuda);
  std::vector<std::size_t> positions(count);
  for (std::size_t i = 0; i < count; ++i) positions[i] = i;
  for (const double width : {1.0, 6.0}) {
    const bool factored = cpu->factor(width, 1e-3) && gpu->factor(width, 1e-3);
    promises.push_back(
        {fmt::format("kernel of {} rows, width {}", count, width), factored ? "factored" : "no factor", factored});
    if (!factored) return;
    Matrix64 wanted(count, kColumns);
    std::ranges::copy(quick_random(count, kColumns, 9).cells(), wanted.cells().begin());
    Matrix64 found = wanted;
    cpu->solve(wanted.view());
    gpu->solve(found.view());
    promises.push_back(near<double>("its solutions", found.cells(), wanted.cells(), 1e-8));
    promises.push_back(near<double>("its inverse's diagonal", gpu->inverse_diagonal(positions),
                                    cpu->inverse_diagonal(positions), 1e-8));
  }
}

}  // namespace

std::vector<CheckPromise> check_kernel_maps(const CheckOptions& options) {
  std::vector<CheckPromise> promises;
  if (options.device != Device::cuda) return promises;  // the processor would be compared with itself
  check_function(33, 7, 301, promises);
  check_system(300, promises);
  if (options.quick) return promises;
  check_function(385, 300, 9001, promises);
  check_system(2500, promises);
  return promises;
}

}  // namespace kedge::test
