// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/device.cuh"

namespace kedge::cuda {
namespace {

constexpr unsigned kRowThreads = 128;
constexpr unsigned kWarps = 8;     // of a block whose warps work on a row each
constexpr unsigned kFew = 8;       // columns of a block that adds up columns: 32 bytes are read at once anyway
constexpr unsigned kStrip = 1024;  // its threads

/// The sum of values[0 ... count), for every thread of a block.
__device__ double sum_of(const double* values, std::size_t count) {
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) sum += values[i];
  return block_sum(sum);
}

/// A warp per row: writes the expected distance to the scratch, and the gradient.
__global__ void cover_kernel(const __grid_constant__ Many<Coverage> many, double* scratch) {
  const Coverage& o = many.mine();
  const std::size_t row = blockIdx.x * std::size_t{kWarps} + threadIdx.x / kWarp;
  if (row >= o.r.rows) return;
  const unsigned lane = threadIdx.x % kWarp;
  const std::size_t cols = o.r.cols;
  const float* products = row_of(o.r, row);
  const float x_length = *row_of(o.x_lengths, row);
  const float inverse_tau = 1 / o.tau;
  const auto distance = [&](std::size_t a) {
    const float length = *row_of(o.a_lengths, a);
    return x_length * x_length + length * length - 2 * products[a];
  };
  // The sums are relative to the closest column met so far, so one pass finds both.
  float closest = INFINITY, sum = 0, weighted = 0;
#pragma unroll 4
  for (std::size_t a = lane; a < cols; a += kWarp) {
    const float d = distance(a);
    const float least = fminf(d, closest);
    const float keep = expf((least - closest) * inverse_tau), q = expf((least - d) * inverse_tau);
    sum = keep * sum + q;
    weighted = keep * weighted + q * d;
    closest = least;
  }
  const float least = -warp_reduce(-closest, Larger{});
  const float keep = expf((least - closest) * inverse_tau);
  sum = warp_reduce(keep * sum, Plus{});
  const float mean = warp_reduce(keep * weighted, Plus{}) / sum;
  const float factor = -2 * o.weighted.share * o.weighted.weight / sum;
  float* gradient = row_of(o.dr, row);
#pragma unroll 4
  for (std::size_t a = lane; a < cols; a += kWarp) {
    const float d = distance(a);
    gradient[a] = factor * expf((least - d) * inverse_tau) * (1 - (d - mean) * inverse_tau);
  }
  if (lane == 0) own_scratch(many, scratch)[row] = mean;
}

/// pull -= the column sums of dr, a block per few columns; one more block adds up the loss.
__global__ void pull_kernel(const __grid_constant__ Many<Coverage> many, double* scratch) {
  const Coverage& o = many.mine();
  const std::size_t strips = (o.dr.cols + kFew - 1) / kFew;
  if (blockIdx.x > strips) return;
  if (blockIdx.x == strips) {
    const double total = sum_of(own_scratch(many, scratch), o.dr.rows);
    if (threadIdx.x == 0) *o.loss.data += static_cast<float>(o.weighted.share * total);
    return;
  }
  __shared__ float sums[kStrip / kWarp][kFew];
  const std::size_t column = blockIdx.x * std::size_t{kFew} + threadIdx.x % kFew;
  float sum = 0;
  if (column < o.dr.cols) {
#pragma unroll 8
    for (std::size_t row = threadIdx.x / kFew; row < o.dr.rows; row += kStrip / kFew) sum += row_of(o.dr, row)[column];
  }
  for (unsigned offset = kFew; offset < kWarp; offset *= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
  if (threadIdx.x % kWarp < kFew) sums[threadIdx.x / kWarp][threadIdx.x % kWarp] = sum;
  __syncthreads();
  if (threadIdx.x >= kFew || column >= o.dr.cols) return;
  float total = 0;
#pragma unroll 8
  for (unsigned w = 0; w < kStrip / kWarp; ++w) total += sums[w][threadIdx.x];
  *row_of(o.pull, column) -= total;
}

/// A block per row; one more adds up the loss.
__global__ void pull_rows_kernel(const __grid_constant__ Many<PullRows> many) {
  const PullRows& o = many.mine();
  const std::size_t row = blockIdx.x;
  const auto rows = static_cast<float>(o.a.rows);
  if (row > o.a.rows) return;
  if (row == o.a.rows) {
    double sum = 0;
    for (std::size_t r = threadIdx.x; r < o.a.rows; r += kRowThreads) {
      const double excess = *row_of(o.lengths, r) - 1;
      sum += excess * excess;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) *o.loss.data += static_cast<float>(o.weighted.share * sum / rows);
    return;
  }
  const float length = *row_of(o.lengths, row);
  const float strength = 2 * o.weighted.share * o.weighted.weight / rows;
  const float factor = *row_of(o.pull, row) + (length > 0 ? strength * (length - 1) / length : 0);
#pragma unroll 4
  for (std::size_t c = threadIdx.x; c < o.a.cols; c += kRowThreads) {
    row_of(o.da, row)[c] += factor * row_of(o.a, row)[c];
  }
}

/// Sums the squares off the diagonal. The diagonal holds ones, or the zero of a zero row; a product's rounding there
/// would count as much as what is measured.
__global__ void orthogonality_kernel(const __grid_constant__ Many<Orthogonality> many, double* scratch) {
  const ConstPanel gram = many.mine().gram;
  const std::size_t row = blockIdx.x;
  if (row >= gram.rows) return;
  double sum = 0;
  for (std::size_t c = threadIdx.x; c < gram.cols; c += kRowThreads) {
    const double value = row_of(gram, row)[c];
    sum += c == row ? (value > 0.5 ? 0 : -1) : value * value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) own_scratch(many, scratch)[row] = sum;
}

__global__ void orthogonality_loss_kernel(const __grid_constant__ Many<Orthogonality> many, double* scratch) {
  const Orthogonality& o = many.mine();
  const auto m = static_cast<double>(o.gram.rows);
  const double sum = sum_of(own_scratch(many, scratch), o.gram.rows);
  if (threadIdx.x == 0 && m > 1) *o.loss.data += static_cast<float>(o.share * sum / (m * (m - 1)));
}

}  // namespace

void run(cudaStream_t stream, std::span<const Coverage> all, double* scratch) {
  const auto many = many_of(all);
  launch(cover_kernel, grid_of(all, [](const Coverage& o) { return blocks(o.r.rows, kWarps); }), kWarps * kWarp, stream,
         "to cover rows", many, scratch);
  launch(pull_kernel, grid_of(all, [](const Coverage& o) { return blocks(o.r.cols, kFew) + 1; }), kStrip, stream,
         "to add up what pulls the rows", many, scratch);
}

void run(cudaStream_t stream, std::span<const PullRows> all) {
  launch(pull_rows_kernel, grid_of(all, [](const PullRows& o) { return o.a.rows + 1; }), kRowThreads, stream,
         "to pull rows", many_of(all));
}

void run(cudaStream_t stream, std::span<const Orthogonality> all, double* scratch) {
  const auto many = many_of(all);
  launch(orthogonality_kernel, grid_of(all, [](const Orthogonality& o) { return o.gram.rows; }), kRowThreads, stream,
         "to compare rows", many, scratch);
  launch(orthogonality_loss_kernel, grid_of(all, [](const Orthogonality&) { return 1; }), kStrip, stream,
         "to sum a loss", many, scratch);
}

}  // namespace kedge::cuda
