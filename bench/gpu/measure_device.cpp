// SPDX-License-Identifier: Apache-2.0
// Times on the GPU by the host's clock: many operations are queued, and a download waits for all of them.
#include "anchors/param/trainer.h"
#include "compute/backend.h"
#include "measure.h"

#include <cuda_runtime_api.h>

#include <numeric>
#include <stdexcept>
#include <utility>

namespace kedge::bench {
namespace {

constexpr std::size_t kRounds = 5;
constexpr Precision kPrecisions[] = {Precision::fp32, Precision::tf32, Precision::bf16};

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

void wait(Backend& backend, Tensor& tensor) {
  Matrix corner(1, 1);
  backend.download(tensor.panel().top_rows(1).columns(0, 1), corner.view());
}

/// Seconds of one call, by the median of rounds of so many calls.
template <class Work>
double seconds_per_call(Backend& backend, Tensor& touched, std::size_t calls, const Work& work) {
  std::vector<double> rounds;
  for (std::size_t round = 0; round <= kRounds; ++round) {
    wait(backend, touched);
    const double seconds = seconds_of([&] {
      for (std::size_t i = 0; i < calls; ++i) work();
      wait(backend, touched);
    });
    if (round > 0) rounds.push_back(seconds / static_cast<double>(calls));  // the first warms up
  }
  return median(rounds);
}

/// Rows made once and repeated: their values do not matter, and making them takes longer than using them.
std::unique_ptr<Tensor> repeated_rows(Backend& backend, std::size_t rows, std::size_t cols) {
  const Matrix block = random_rows(std::min<std::size_t>(rows, 10'000), cols, 1);
  auto tensor = backend.make(rows, cols);
  for (std::size_t first = 0; first < rows; first += block.rows()) {
    const std::size_t count = std::min(block.rows(), rows - first);
    backend.upload(block.view().middle_rows(0, count), tensor->panel().middle_rows(first, count));
  }
  return tensor;
}

/// The rate of a product with a packed matrix, like those with the support: a bf16 backend multiplies nothing else in
/// bfloat16. Narrowing the left factor counts.
double gemm_tflops(Precision precision) {
  constexpr std::size_t kSize = 8192;
  const auto backend = make_backend(Device::cuda, precision);
  const auto a = repeated_rows(*backend, kSize, kSize);
  const auto b = repeated_rows(*backend, kSize, kSize);
  const auto packed = backend->pack(b->panel());
  const auto c = backend->make(kSize, kSize);
  const double seconds = seconds_per_call(*backend, *c, precision == Precision::fp32 ? 5 : 20,
                                          [&] { backend->packed_nn(a->panel(), *packed, c->panel()); });
  return 2.0 * kSize * kSize * kSize / seconds / 1e12;
}

/// Bytes read and written within the GPU, or brought there from pinned memory, in GB/s.
double copy_rate(cudaMemcpyKind kind) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  constexpr int kCalls = 8;
  const bool within = kind == cudaMemcpyDeviceToDevice;
  void* from = nullptr;
  void* to = nullptr;
  check(within ? cudaMalloc(&from, kBytes) : cudaMallocHost(&from, kBytes));
  check(cudaMalloc(&to, kBytes));
  std::vector<double> rounds;
  for (std::size_t round = 0; round <= kRounds; ++round) {
    const double seconds = seconds_of([&] {
      for (int i = 0; i < kCalls; ++i) check(cudaMemcpyAsync(to, from, kBytes, kind, nullptr));
      check(cudaDeviceSynchronize());
    });
    if (round > 0) rounds.push_back(seconds);  // the first warms up
  }
  check(within ? cudaFree(from) : cudaFreeHost(from));
  check(cudaFree(to));
  return (within ? 2.0 : 1.0) * kCalls * static_cast<double>(kBytes) / median(rounds) / 1e9;
}

struct StepSizes {
  std::size_t rows = 50'000, support = 5'000, anchors = 300, batch = 1024;
  std::vector<std::size_t> dims{384, 1280, 768};
};

/// As bench/vs_pytorch.py counts: mixture x support and back, rows x anchors and back, anchors' Gram, pairs of spaces.
double flops(const StepSizes& s) {
  const auto width = static_cast<double>(std::accumulate(s.dims.begin(), s.dims.end(), std::size_t{0}));
  const auto m = static_cast<double>(s.anchors);
  const auto n = static_cast<double>(s.batch);
  const auto pairs = static_cast<double>(s.dims.size() * (s.dims.size() - 1)) / 2;
  return 4 * m * (static_cast<double>(s.support) + n + m) * width + 6 * n * n * m * pairs;
}

nlohmann::json time_steps(Backend& backend, const WhitenedSpaces& spaces, const StepSizes& sizes) {
  constexpr std::size_t kEpochs = 4;  // of a round: about 200 steps
  std::vector<std::uint32_t> support(sizes.support);
  std::iota(support.begin(), support.end(), 0U);
  Param options;
  options.batch = sizes.batch;
  options.epochs = 1'000'000;
  Trainer trainer(backend, spaces, support, sizes.anchors, options, 0);
  const std::size_t per_epoch = sizes.rows / sizes.batch;
  const auto epochs = [&](std::size_t count) {
    for (std::size_t e = 0; e < count; ++e) {
      for (std::size_t done = 0; done < per_epoch;) {
        const std::size_t next = std::min(backend.stride(), per_epoch - done);
        trainer.take_steps(next);
        done += next;
      }
    }
  };
  epochs(2);
  std::vector<double> rounds(kRounds);
  for (double& ms : rounds) ms = 1e3 * seconds_of([&] { epochs(kEpochs); }) / static_cast<double>(kEpochs * per_epoch);
  const double ms = median(rounds);
  return {{"support", sizes.support},
          {"ms_per_step", ms},
          {"rounds_ms", rounds},
          {"steps_per_round", kEpochs * per_epoch},
          {"flops_per_step", flops(sizes)},
          {"tflops", flops(sizes) / ms / 1e9}};
}

nlohmann::json time_transform(Precision precision) {
  constexpr std::size_t kRows = 2'000'000, kDim = 768, kAnchors = 300, kCalls = 5;
  const auto backend = make_backend(Device::cuda, precision);
  const auto x = repeated_rows(*backend, kRows, kDim);
  const auto w = repeated_rows(*backend, kAnchors, kDim);
  const auto b = repeated_rows(*backend, 1, kAnchors);
  const auto y = backend->make(kRows, kAnchors);
  const double product =
      seconds_per_call(*backend, *y, kCalls, [&] { backend->gemm_nt(1, x->panel(), w->panel(), 0, y->panel()); });
  const double affine = seconds_per_call(
      *backend, *y, kCalls, [&] { backend->affine(x->panel(), w->panel(), b->panel(), false, y->panel()); });
  return {{"rows", kRows},
          {"dim", kDim},
          {"anchors", kAnchors},
          {"precision", to_string(precision)},
          {"product_ms", 1e3 * product},
          {"transform_ms", 1e3 * affine},
          {"share_of_product_rate", product / affine},
          {"tflops", 2.0 * kRows * kDim * kAnchors / affine / 1e12}};
}

}  // namespace

nlohmann::json measure_ceilings() {
  nlohmann::json gemm;
  for (const Precision precision : kPrecisions) gemm[std::string(to_string(precision))] = gemm_tflops(precision);
  return {{"gemm_tflops", gemm},
          {"copy_within_gb_per_s", copy_rate(cudaMemcpyDeviceToDevice)},
          {"copy_from_host_gb_per_s", copy_rate(cudaMemcpyHostToDevice)}};
}

nlohmann::json measure_steps(std::span<const Precision> precisions) {
  nlohmann::json found;
  for (const Precision precision : precisions) {
    StepSizes sizes;
    const auto backend = make_backend(Device::cuda, precision);
    const std::size_t width = std::accumulate(sizes.dims.begin(), sizes.dims.end(), std::size_t{0});
    const WhitenedSpaces spaces{repeated_rows(*backend, sizes.rows, width), sizes.dims};
    for (const std::size_t support : {std::size_t{5'000}, sizes.rows}) {
      sizes.support = support;
      nlohmann::json step = time_steps(*backend, spaces, sizes);
      step["precision"] = to_string(precision);
      found.push_back(std::move(step));
    }
  }
  return found;
}

nlohmann::json measure_resident_transform() {
  return {time_transform(Precision::fp32), time_transform(Precision::tf32)};
}

}  // namespace kedge::bench
