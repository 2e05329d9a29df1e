// SPDX-License-Identifier: Apache-2.0
#include "head/cuda/logistic_kernels.h"

#include "compute/cuda/device.cuh"

namespace kedge::cuda {
namespace {

constexpr unsigned kThreads = 128;  // of a block, which works on one row
constexpr unsigned kWarps = 8;      // of a block whose warps work on a row each, as there are few classes
constexpr unsigned kSum = 1024;     // threads of the one block that adds up the losses

__global__ void centre_kernel(ConstPanel features, const double* mean, std::size_t width, double* to) {
  const float* from = features.data + blockIdx.x * features.stride;
  double* row = to + blockIdx.x * width;
  for (std::size_t c = threadIdx.x; c < width; c += kThreads) {
    row[c] = c < features.cols ? static_cast<double>(from[c]) - mean[c] : (c == features.cols ? 1 : 0);
  }
}

struct LargerDouble {
  __device__ double operator()(double a, double b) const { return fmax(a, b); }
};

__global__ void softmax_kernel(const std::uint32_t* classes, std::size_t rows, std::size_t class_count, double* logits,
                               double* losses) {
  const std::size_t r = blockIdx.x * std::size_t{kWarps} + threadIdx.x / kWarp;
  if (r >= rows) return;  // with its whole warp
  const unsigned lane = threadIdx.x % kWarp;
  double* row = logits + r * class_count;
  const std::size_t truth = classes[r];
  const double share = 1 / static_cast<double>(rows);
  const double right = row[truth];
  double largest = -INFINITY;
  for (std::size_t c = lane; c < class_count; c += kWarp) largest = fmax(largest, row[c]);
  largest = warp_reduce(largest, LargerDouble{});
  double sum = 0;
  for (std::size_t c = lane; c < class_count; c += kWarp) sum += exp(row[c] - largest);
  sum = warp_reduce(sum, Plus{});
  __syncwarp();  // all lanes have read the logit that is right before one replaces it
  const double factor = share / sum;
  for (std::size_t c = lane; c < class_count; c += kWarp) {
    row[c] = factor * exp(row[c] - largest) - (c == truth ? share : 0);
  }
  if (lane == 0) losses[r] = share * (log(sum) + largest - right);
}

__global__ void sum_kernel(const double* values, std::size_t count, double* to) {
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < count; i += kSum) sum += values[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *to = sum;
}

}  // namespace

void centre_rows(cudaStream_t stream, ConstPanel features, const double* mean, std::size_t width, double* to) {
  centre_kernel<<<static_cast<unsigned>(features.rows), kThreads, 0, stream>>>(features, mean, width, to);
  check_launch("to centre rows");
}

void softmax_loss(cudaStream_t stream, const std::uint32_t* classes, std::size_t rows, std::size_t class_count,
                  double* logits, double* losses, double* loss) {
  const auto blocks = static_cast<unsigned>((rows + kWarps - 1) / kWarps);
  softmax_kernel<<<blocks, kWarps * kWarp, 0, stream>>>(classes, rows, class_count, logits, losses);
  check_launch("in the cross-entropy");
  sum_kernel<<<1, kSum, 0, stream>>>(losses, rows, loss);
  check_launch("to sum losses");
}

}  // namespace kedge::cuda
