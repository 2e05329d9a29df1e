// SPDX-License-Identifier: Apache-2.0
// Kernel maps on the GPU: how close one comes to its two products by cuBLAS, of the same sizes and in the same run, and
// how long its linear system takes. Prints a table.
//   kedge_gpu_kernel_bench [apply] [stream] [system]      all of them by default
#include "base/parallel.h"
#include "compute/cuda/operations.h"
#include "compute/kernel.h"
#include "compute/row_worker.h"
#include "measure.h"

#include <kedge/kedge.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <set>

namespace kedge::bench {
namespace {

constexpr std::size_t kDim = 512, kOutputs = 300, kRounds = 5;

Matrix unit_rows(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  Matrix matrix = random_rows(rows, cols, seed);
  normalize_rows(matrix.view());
  return matrix;
}

/// A map of random values.
struct Map {
  explicit Map(std::size_t support)
      : projection(unit_rows(kDim, kDim, 1)),
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

/// Seconds of one call, by the median of rounds of a few; the first round warms up.
template <class Work>
double seconds_per_call(const cuda::Lane& lane, const Work& work) {
  constexpr int kCalls = 4;
  std::vector<double> rounds;
  for (std::size_t round = 0; round <= kRounds; ++round) {
    const double seconds = seconds_of([&] {
      for (int i = 0; i < kCalls; ++i) work();
      lane.wait();
    });
    if (round > 0) rounds.push_back(seconds / kCalls);
  }
  return median(rounds);
}

/// Of rows that are in the GPU's memory.
void measure_apply(std::size_t support, std::size_t rows, Precision precision) {
  const Map map(support);
  const cuda::DeviceKernel function(map.function(), precision);
  const cuda::Lane lane;
  const Matrix values = random_rows(rows, kDim, 5);
  const cuda::DeviceArray<float> given = lane.copy_of(values.view()), found(rows * kOutputs), made(rows * support);
  const Panel x{given.data(), rows, kDim, kDim}, y{found.data(), rows, kOutputs, kOutputs};
  const Panel between{made.data(), rows, support, support};
  const Panel keys{function.rows.data(), support, kDim, kDim};
  const Panel coefficients{function.coefficients.data(), support, kOutputs, kOutputs};
  cuda::KernelApply apply(function, rows);
  const double applied = seconds_per_call(lane, [&] { apply.apply(lane, x, y); });
  const double multiplied = seconds_per_call(lane, [&] {
    cuda::multiply(lane, {CUBLAS_OP_N, CUBLAS_OP_T, kDim, 1, x, keys, 0, between}, precision);
    cuda::multiply(lane, {CUBLAS_OP_N, CUBLAS_OP_N, support, 1, between, coefficients, 0, y}, precision);
  });
  const double flops = 2e-12 * static_cast<double>(rows * support * (kDim + kOutputs));
  std::printf("apply   K %5zu  %6zu rows  %s  %6.1f TFLOP/s, the products %6.1f, ratio %.2f\n", support, rows,
              std::string(to_string(precision)).c_str(), flops / applied, flops / multiplied, multiplied / applied);
}

/// From the host's memory to the host's memory, in blocks and on as many threads as `transform` uses.
void measure_stream(std::size_t support, Precision precision) {
  constexpr std::size_t kRows = 400'000, kBlock = 5'120;
  const Map map(support);
  const MakeRowWorker make = kernel_workers(map.function(), Device::cuda, precision);
  const Matrix block = random_rows(kBlock, kDim, 5);
  const unsigned workers = std::min(threads() + 2, 16U);
  const auto all = [&] {
    parallel_blocks(kRows, kBlock, workers, [&] {
      auto worker = make(kBlock);
      const auto input = worker->input(kBlock);
      std::copy(block.cells().begin(), block.cells().end(), input.data);
      return [worker = std::move(worker)](std::size_t, std::size_t rows) { (void)worker->apply(rows); };
    });
  };
  all();
  const double seconds = seconds_of(all);
  const double flops = 2e-12 * static_cast<double>(kRows * support * (kDim + kOutputs));
  std::printf("stream  K %5zu  %zu rows  %s  %2u workers  %6.1f TFLOP/s, %.2f million rows/s\n", support, kRows,
              std::string(to_string(precision)).c_str(), workers, flops / seconds,
              static_cast<double>(kRows) / seconds / 1e6);
}

/// The largest error of some equations of (K + ridge I) x = 1.
double residual(const Matrix& rows, const Matrix64& x, double width, double ridge) {
  double worst = 0;
  for (std::size_t i = 0; i < rows.rows(); i += rows.rows() / 7) {
    double sum = ridge * x.row(i)[0];
    for (std::size_t j = 0; j < rows.rows(); ++j) {
      double cosine = 0;
      for (std::size_t k = 0; k < rows.cols(); ++k) cosine += static_cast<double>(rows.row(i)[k]) * rows.row(j)[k];
      sum += std::exp(width * (cosine - 1)) * x.row(j)[0];
    }
    worst = std::max(worst, std::abs(sum - 1));
  }
  return worst;
}

void measure_system(std::size_t support) {
  constexpr std::size_t kPositions = 2'000;
  constexpr double kWidth = 2;
  const double ridge = 1e-8 * static_cast<double>(support);
  const Matrix rows = unit_rows(support, kDim, 2);
  std::unique_ptr<KernelSystem> system;
  const double made = seconds_of([&] { system = make_kernel_system(rows.view(), Device::cuda); });
  double factored = 0;
  for (const double width : {1.0, kWidth}) {
    factored = seconds_of([&] {
      if (!system->factor(width, ridge)) std::puts("no factor");
    });
  }
  std::vector<std::size_t> some(kPositions);
  for (std::size_t i = 0; i < kPositions; ++i) some[i] = i * support / kPositions;
  const double inverted = seconds_of([&] { (void)system->inverse_diagonal(some); });
  Matrix64 x(support, kOutputs);
  std::ranges::fill(x.cells(), 1.0);
  const double solved = seconds_of([&] { system->solve(x.view()); });
  std::printf(
      "system  K %5zu  made %.2f s, factored %.2f s, diagonal of %zu %.2f s, solved for %zu %.2f s, off by %.1e\n",
      support, made, factored, kPositions, inverted, kOutputs, solved, residual(rows, x, kWidth, ridge));
}

void run(const std::set<std::string>& wanted) {
  const auto wants = [&](const char* name) { return wanted.empty() || wanted.contains(name); };
  require_device(Device::cuda);
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    for (const std::size_t support : {3'000U, 10'000U}) {
      if (wants("apply")) {
        for (const std::size_t rows : {5'120U, 65'536U}) measure_apply(support, rows, precision);
      }
      if (wants("stream")) measure_stream(support, precision);
    }
  }
  if (!wants("system")) return;
  for (const std::size_t support : {10'000U, 30'000U, 60'000U}) measure_system(support);
}

}  // namespace
}  // namespace kedge::bench

int main(int argc, char** argv) {
  try {
    kedge::bench::run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
}
