// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/refine.h"
#include "compute/products.h"
#include "compute/threads.h"
#include "fit/attach.h"
#include "fit/fit.h"
#include "regress/kernel_ridge.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

namespace kedge {
namespace {

// Float64 on a GPU that is made for it.
constexpr double kGpuRate = 1e13;

/// Multiplications per second in float64, as small products show them.
double rate_of(Device device) {
  if (device != Device::cpu) return kGpuRate;
  constexpr Eigen::Index kDim = 400;
  const EigenRows<double> ones = EigenRows<double>::Ones(kDim, kDim);
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const EigenRows<double> result = product(ones, ones);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (result(0, 0) == kDim) best = std::max(best, static_cast<double>(kDim * kDim * kDim) / passed.count());
  }
  constexpr double kOfFactoring = 0.75;  // which is no plain product
  return kOfFactoring * best;
}

/// Multiplications in float64; those in float32 count half.
struct Amount {
  double work = 0;
  std::size_t bytes = 0;

  void add_kernel(std::size_t support, std::size_t dim, std::size_t outputs) {
    work += kernel_work(support, dim, outputs);
    bytes = std::max(bytes, kernel_bytes(support, dim, outputs));
  }
  void add_ridge(std::size_t support, std::size_t dim, std::size_t outputs) {
    const auto k = static_cast<double>(support), in = static_cast<double>(dim), out = static_cast<double>(outputs);
    work += k * in * (in / 2 + out) + 2 * in * in * in;  // products, then the tridiagonal form and its basis
    bytes = std::max(bytes, sizeof(double) * (2 * support * (dim + outputs) + 3 * dim * dim));
  }
  /// Half of the decomposition of all spaces side by side reads memory, and takes longer than its products.
  void add_consensus(std::size_t dim) {
    constexpr std::size_t kSlow = 2500, kMatrices = 4;  // narrower ones take a few seconds at most
    if (dim < kSlow) return;
    work += 4 * std::pow(static_cast<double>(dim), 3);
    bytes = std::max(bytes, kMatrices * sizeof(double) * dim * dim);
  }
  [[nodiscard]] Cost on(Device device) const { return work > 0 ? Cost{work / rate_of(device), bytes} : Cost{}; }
};

/// For each batch: targets to anchors and back, rows to their RR and back, and the cosines of every pair of spaces.
double refinement_work(const Refinement& refinement, const FitOptions& options, std::span<const std::size_t> dims,
                       std::size_t rows) {
  const auto anchors = static_cast<double>(anchor_count(options, rows));
  const auto support = static_cast<double>(support_size(options, rows));
  const auto width = static_cast<double>(std::accumulate(dims.begin(), dims.end(), std::size_t{0}));
  const auto batch = static_cast<double>(std::min(refinement.batch, rows));
  const auto pairs = static_cast<double>(dims.size() * (dims.size() - 1)) / 2;
  const double step = 2 * anchors * width * (support + batch) + 3 * pairs * batch * batch * anchors;
  return static_cast<double>(refinement.epochs.value_or(0)) * step * static_cast<double>(rows) / batch / 2;
}

}  // namespace

Cost fit_cost(const FitOptions& asked, std::span<const std::size_t> dims, std::size_t rows) {
  const Work work;
  const FitOptions options = with_effort(asked, dims.size(), has_others(asked, rows));
  const std::size_t support = support_size(options, rows);
  Amount amount, pairs;
  if (const Refinement* refinement = refinement_of(options)) {
    amount.work += refinement_work(*refinement, options, dims, rows);
    amount.bytes = sizeof(float) * refinement_floats(dims, rows, support, anchor_count(options, rows),
                                                     std::min(refinement->batch, rows));
  }
  if (std::holds_alternative<Consensus>(options.method)) {
    amount.add_consensus(std::accumulate(dims.begin(), dims.end(), std::size_t{0}));
  }
  if (is_adapter(options.method, Pairwise::kernel) && dims.size() == 2) {
    amount.add_kernel(support, dims[0], dims[1]);
    amount.add_kernel(support, dims[1], dims[0]);
  } else {
    const bool by_kernel = makes_kernels(options);
    for (std::size_t from = 0; from < dims.size(); ++from) {
      if (by_kernel) amount.add_kernel(support, dims[from], anchor_count(options, rows));
      for (std::size_t to = 0; to < dims.size() && options.keep_rows; ++to) {
        if (to == from) continue;
        if (by_kernel) {
          pairs.add_kernel(support, dims[from], dims[to]);
        } else {
          pairs.add_ridge(support, dims[from], dims[to]);
        }
      }
    }
  }
  const Cost cost = amount.on(options.device);
  const Cost of_pairs = pairs.on(Device::cpu);  // where they are regressed, whatever the device
  return {cost.seconds + of_pairs.seconds, std::max(cost.bytes, of_pairs.bytes)};
}

Cost attach_cost(const Bundle& bundle, const AttachOptions& options, std::size_t dim) {
  const Work work;
  const AttachBy by = attach_by(bundle, options);
  Amount amount;
  if (by == AttachBy::kernel || by == AttachBy::automatic) {
    amount.add_kernel(bundle.anchors().support_ids.size(), dim, bundle.anchors().mixture.rows());
  }
  return amount.on(options.device);
}

}  // namespace kedge
