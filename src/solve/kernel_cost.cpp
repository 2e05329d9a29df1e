// SPDX-License-Identifier: Apache-2.0
#include "backend/products.h"
#include "backend/threads.h"
#include "solve/kernel_choice.h"

#include <algorithm>
#include <chrono>

namespace kedge {
namespace {

// How often the choice looks at a part of the rows, as seen on real embeddings.
constexpr double kFirstSteps = 16, kMoreSteps = 6;
// Float64 on a GPU made for it.
constexpr double kGpuRate = 1e13;

/// Multiplications per second, as a small product shows them.
double rate_now() {
  constexpr Eigen::Index kDim = 400;
  const EigenRows<double> ones = EigenRows<double>::Ones(kDim, kDim);
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const EigenRows<double> result = product(ones, ones);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (result(0, 0) == kDim) best = std::max(best, kDim * kDim * kDim / passed.count());
  }
  constexpr double kOfFactoring = 0.75;  // which is no plain product
  return kOfFactoring * best;
}

}  // namespace

double choice_work(std::size_t rows, std::size_t dim) {
  const auto n = static_cast<double>(rows);
  return n * n * (n / 3 + static_cast<double>(dim) / 2 + 100);
}

double kernel_work(std::size_t rows, std::size_t dim, std::size_t outputs) {
  const auto n = static_cast<double>(rows);
  const auto judged = static_cast<double>(std::min(rows, kMostJudged));
  double work = n * n * (n / 6 + judged / 2 + static_cast<double>(dim) / 2 + static_cast<double>(outputs));
  work += kFirstSteps * choice_work(std::min(rows, kFirstRows), dim);
  if (rows > kFirstRows) work += kMoreSteps * choice_work(std::min(rows, kMoreRows), dim);
  return work;
}

KernelCost kernel_cost(std::size_t support, std::size_t dim, std::size_t outputs, Device device) {
  const Work work;
  const double rate = device == Device::cpu ? rate_now() : kGpuRate;
  const std::size_t matrices = support + 3 * outputs + 3 * dim;  // of so many columns, and as many rows as the support
  return {kernel_work(support, dim, outputs) / rate, checked_mul(checked_mul(support, matrices), sizeof(double))};
}

}  // namespace kedge
