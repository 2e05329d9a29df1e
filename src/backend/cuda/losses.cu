// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/check.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/reduce.cuh"

namespace kedge::cuda {
namespace {

constexpr unsigned kRowThreads = 128;
constexpr unsigned kWarps = 8;     // of a block whose warps work on a row each
constexpr unsigned kStrip = 1024;  // threads of a block that works on the 32 columns of a strip, a warp to a row

unsigned blocks(std::size_t count, unsigned each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

__device__ const float* row_of(ConstPanel p, std::size_t row) {
  return p.data + row * p.stride;
}

/// The sum of values[0 ... count), for every thread of a block.
__device__ double sum_of(const double* values, std::size_t count) {
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) sum += values[i];
  return block_sum(sum);
}

__global__ void add_sum_kernel(const double* values, std::size_t count, double factor, Panel loss) {
  const double sum = sum_of(values, count);
  if (threadIdx.x == 0) *loss.data += static_cast<float>(factor * sum);
}

/// A warp to a row: the expected distance to `expected`, and the gradient.
__global__ void cover_kernel(ConstPanel r, ConstPanel x_lengths, ConstPanel a_lengths, float tau, float scale, Panel dr,
                             double* expected) {
  const std::size_t row = blockIdx.x * std::size_t{kWarps} + threadIdx.x / kWarp;
  if (row >= r.rows) return;
  const unsigned lane = threadIdx.x % kWarp;
  const float* products = row_of(r, row);
  const float x_length = *row_of(x_lengths, row);
  const auto distance = [&](std::size_t a) {
    const float length = *row_of(a_lengths, a);
    return x_length * x_length + length * length - 2 * products[a];
  };
  // The sums are relative to the closest anchor met so far, so that one pass finds it and them.
  float closest = INFINITY, sum = 0, weighted = 0;
#pragma unroll 4
  for (std::size_t a = lane; a < r.cols; a += kWarp) {
    const float d = distance(a);
    const float least = fminf(d, closest);
    const float keep = expf((least - closest) / tau), q = expf((least - d) / tau);
    sum = keep * sum + q;
    weighted = keep * weighted + q * d;
    closest = least;
  }
  const float least = -warp_reduce(-closest, Larger{});
  const float keep = expf((least - closest) / tau);
  sum = warp_reduce(keep * sum, Plus{});
  const float mean = warp_reduce(keep * weighted, Plus{}) / sum;
#pragma unroll 4
  for (std::size_t a = lane; a < r.cols; a += kWarp) {
    const float d = distance(a);
    const float q = expf((least - d) / tau) / sum;
    dr.data[row * dr.stride + a] = -2 * scale * q * (1 - (d - mean) / tau);
  }
  if (lane == 0) expected[row] = mean;
}

/// pull -= the column sums of dr; one more block adds the loss up.
__global__ void pull_kernel(ConstPanel dr, Panel pull, const double* expected, float share, Panel loss) {
  if (blockIdx.x == gridDim.x - 1) {
    const double total = sum_of(expected, dr.rows);
    if (threadIdx.x == 0) *loss.data += static_cast<float>(share * total);
    return;
  }
  __shared__ float sums[kStrip / kWarp][kWarp + 1];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::size_t column = blockIdx.x * std::size_t{kWarp} + lane;
  float sum = 0;
  if (column < dr.cols) {
#pragma unroll 8
    for (std::size_t row = warp; row < dr.rows; row += kStrip / kWarp) sum += row_of(dr, row)[column];
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= dr.cols) return;
  float total = 0;
  for (unsigned w = 0; w < kStrip / kWarp; ++w) total += sums[w][lane];
  pull.data[column * pull.stride] -= total;
}

/// A block to an anchor; one more adds the loss up.
__global__ void pull_anchors_kernel(ConstPanel a, ConstPanel lengths, ConstPanel pull, Weighted weighted, Panel da,
                                    Panel loss) {
  const auto anchors = static_cast<float>(a.rows);
  if (blockIdx.x == a.rows) {
    double sum = 0;
    for (std::size_t r = threadIdx.x; r < a.rows; r += kRowThreads) {
      const double excess = *row_of(lengths, r) - 1;
      sum += excess * excess;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) *loss.data += static_cast<float>(weighted.share * sum / anchors);
    return;
  }
  const float length = *row_of(lengths, blockIdx.x);
  const float strength = 2 * weighted.share * weighted.weight / anchors;
  const float factor = *row_of(pull, blockIdx.x) + (length > 0 ? strength * (length - 1) / length : 0);
  for (std::size_t c = threadIdx.x; c < a.cols; c += kRowThreads) {
    da.data[blockIdx.x * da.stride + c] += factor * row_of(a, blockIdx.x)[c];
  }
}

/// Squares off the diagonal. On it stand ones, or the zero of an anchor that is zero; there a product's rounding would
/// count as much as what is to be measured.
__global__ void orthogonality_kernel(ConstPanel gram, double* sums) {
  const std::size_t row = blockIdx.x;
  double sum = 0;
  for (std::size_t c = threadIdx.x; c < gram.cols; c += kRowThreads) {
    const double value = row_of(gram, row)[c];
    sum += c == row ? (value > 0.5 ? 0 : -1) : value * value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[row] = sum;
}

/// What a cosine weighs in its row and its column. Cosines are at most 1 but for rounding, so one bound serves both.
__device__ float weight_of(float cosine, float inverse_tau) {
  return expf((cosine - 1) * inverse_tau);
}

// Blocks that share the rows of a strip of columns; whoever needs a column's sum adds up theirs.
constexpr unsigned kShares = 4;

struct NceSums {
  float *rows, *columns, *right;  ///< columns: kShares for each; right: the cosines on the diagonal
  std::size_t n;

  __device__ float column(std::size_t c) const {
    float sum = 0;
    for (unsigned i = 0; i < kShares; ++i) sum += columns[i * n + c];
    return sum;
  }
};

/// Blocks below `row_blocks` add up rows, a warp to a row; the others add up their share of a strip of columns.
__global__ void nce_sums_kernel(ConstPanel cosines, float inverse_tau, unsigned row_blocks, NceSums to) {
  const std::size_t n = cosines.rows;
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  if (blockIdx.x < row_blocks) {
    const std::size_t row = blockIdx.x * std::size_t{kWarps} + warp;
    if (row >= n) return;
    float sum = 0;
#pragma unroll 8
    for (std::size_t c = lane; c < n; c += kWarp) sum += weight_of(row_of(cosines, row)[c], inverse_tau);
    sum = warp_reduce(sum, Plus{});
    if (lane == 0) {
      to.rows[row] = sum;
      to.right[row] = row_of(cosines, row)[row];
    }
    return;
  }
  __shared__ float sums[kWarps][kWarp + 1];
  const unsigned share = (blockIdx.x - row_blocks) % kShares;
  const std::size_t column = (blockIdx.x - row_blocks) / kShares * std::size_t{kWarp} + lane;
  float sum = 0;
  if (column < n) {
#pragma unroll 8
    for (std::size_t row = share * kWarps + warp; row < n; row += kShares * kWarps) {
      sum += weight_of(row_of(cosines, row)[column], inverse_tau);
    }
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= n) return;
  float total = 0;
  for (unsigned w = 0; w < kWarps; ++w) total += sums[w][lane];
  to.columns[share * n + column] = total;
}

/// A block to a row; one more adds the loss up.
__global__ void nce_gradient_kernel(Panel cosines, float inverse_tau, float step, float share, NceSums sums,
                                    Panel loss) {
  const std::size_t n = cosines.rows;
  if (blockIdx.x == n) {
    double total = 0;
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x) {
      total += log(static_cast<double>(sums.rows[i])) + log(static_cast<double>(sums.column(i))) -
               2 * (static_cast<double>(sums.right[i]) - 1) * inverse_tau;
    }
    total = block_sum(total);
    if (threadIdx.x == 0) *loss.data += static_cast<float>(share * total / (2 * static_cast<double>(n)));
    return;
  }
  float* row = cosines.data + blockIdx.x * cosines.stride;
  const float of_row = 1 / sums.rows[blockIdx.x];
  for (std::size_t c = threadIdx.x; c < n; c += blockDim.x) {
    const float gradient = step * weight_of(row[c], inverse_tau) * (of_row + 1 / sums.column(c));
    row[c] = c == blockIdx.x ? gradient - 2 * step : gradient;
  }
}

}  // namespace

void coverage(cudaStream_t stream, ConstPanel r, ConstPanel x_lengths, ConstPanel a_lengths, float tau,
              Weighted weighted, Panel dr, Panel pull, double* scratch, Panel loss) {
  cover_kernel<<<blocks(r.rows, kWarps), kWarps * kWarp, 0, stream>>>(r, x_lengths, a_lengths, tau,
                                                                      weighted.share * weighted.weight, dr, scratch);
  check_launch("to cover rows");
  pull_kernel<<<blocks(r.cols, kWarp) + 1, kStrip, 0, stream>>>(dr, pull, scratch, weighted.share, loss);
  check_launch("to add up what pulls the anchors");
}

void pull_anchors(cudaStream_t stream, ConstPanel a, ConstPanel lengths, ConstPanel pull, Weighted weighted, Panel da,
                  Panel loss) {
  pull_anchors_kernel<<<blocks(a.rows, 1) + 1, kRowThreads, 0, stream>>>(a, lengths, pull, weighted, da, loss);
  check_launch("to pull anchors");
}

void orthogonality(cudaStream_t stream, ConstPanel gram, float share, double* scratch, Panel loss) {
  if (gram.rows < 2) return;
  orthogonality_kernel<<<blocks(gram.rows, 1), kRowThreads, 0, stream>>>(gram, scratch);
  check_launch("to compare anchors");
  const auto m = static_cast<double>(gram.rows);
  add_sum_kernel<<<1, kStrip, 0, stream>>>(scratch, gram.rows, share / (m * (m - 1)), loss);
  check_launch("to add up a loss");
}

void symmetric_nce(cudaStream_t stream, Panel cosines, float tau, Weighted weighted, double* scratch, Panel loss) {
  const std::size_t n = cosines.rows;
  auto* floats = reinterpret_cast<float*>(scratch);
  const NceSums sums{floats, floats + 2 * n, floats + n, n};
  const unsigned row_blocks = blocks(n, kWarps);
  nce_sums_kernel<<<row_blocks + kShares * blocks(n, kWarp), kWarps * kWarp, 0, stream>>>(cosines, 1 / tau, row_blocks,
                                                                                          sums);
  check_launch("to add up cosines");
  const float step = weighted.share * weighted.weight / (2 * tau * static_cast<float>(n));
  nce_gradient_kernel<<<blocks(n, 1) + 1, 2 * kRowThreads, 0, stream>>>(cosines, 1 / tau, step, weighted.share, sums,
                                                                        loss);
  check_launch("in the gradient of cosines");
}

}  // namespace kedge::cuda
