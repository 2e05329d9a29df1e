// SPDX-License-Identifier: Apache-2.0
#include "head/cuda/mlp_kernels.h"

#include "compute/cuda/device.cuh"

namespace kedge::cuda {
namespace {

constexpr unsigned kThreads = 128;      // of a block, which works on one row
constexpr unsigned kStrip = 1024;       // threads of a block that works on the 32 columns of a strip, a warp to a row
constexpr unsigned kAdamThreads = 256;  // each moves one parameter
constexpr float kNormEpsilon = 1e-5F;   // as torch.nn.LayerNorm

__device__ std::size_t id_of(const Ids& ids, std::size_t row) {
  return ids.data[*ids.turn % ids.batches * ids.count + row];
}

/// What a LayerNorm subtracts from a row, and what it divides by.
struct Level {
  float mean, length;
};

/// For every thread of the block.
__device__ Level level_of(const float* row, std::size_t cols) {
  float sum = 0;
  for (std::size_t c = threadIdx.x; c < cols; c += kThreads) sum += row[c];
  const float mean = block_sum(sum) / static_cast<float>(cols);
  float squares = 0;
  for (std::size_t c = threadIdx.x; c < cols; c += kThreads) {
    const float difference = row[c] - mean;
    squares += difference * difference;
  }
  return {mean, sqrtf(block_sum(squares) / static_cast<float>(cols) + kNormEpsilon)};
}

__global__ void level_rows_kernel(ConstPanel features, Ids ids, const float* scale, const float* shift, Panel unit,
                                  Panel scaled) {
  const float* from = row_of(features, id_of(ids, blockIdx.x));
  float* levelled = row_of(unit, blockIdx.x);
  float* out = row_of(scaled, blockIdx.x);
  const Level level = level_of(from, features.cols);
  for (std::size_t c = threadIdx.x; c < features.cols; c += kThreads) {
    const float value = (from[c] - level.mean) / level.length;
    levelled[c] = value;
    out[c] = value * scale[c] + shift[c];
  }
}

__device__ float keep(const MlpDropout& dropout, std::size_t i) {
  if (dropout.bits == nullptr) return 1;
  return dropout.bits[i] < dropout.limit ? 0 : dropout.kept;
}

__global__ void activate_kernel(const float* bias, MlpDropout dropout, bool norms, Panel hidden, Panel unit,
                                float* lengths) {
  float* h = row_of(hidden, blockIdx.x);
  float* u = row_of(unit, blockIdx.x);
  const std::size_t first = blockIdx.x * hidden.cols;
  for (std::size_t c = threadIdx.x; c < hidden.cols; c += kThreads) {
    h[c] = tanhf(h[c] + bias[c]);
    u[c] = keep(dropout, first + c) * h[c];
  }
  if (!norms) return;
  // Each thread reads back only values it wrote itself.
  const Level level = level_of(u, unit.cols);
  for (std::size_t c = threadIdx.x; c < unit.cols; c += kThreads) u[c] = (u[c] - level.mean) / level.length;
  if (threadIdx.x == 0) lengths[blockIdx.x] = level.length;
}

__global__ void activate_backward_kernel(ConstPanel hidden, ConstPanel unit, const float* lengths, MlpDropout dropout,
                                         bool norms, Panel gradient) {
  const float* h = row_of(hidden, blockIdx.x);
  const float* u = row_of(unit, blockIdx.x);
  float* g = row_of(gradient, blockIdx.x);
  const std::size_t first = blockIdx.x * hidden.cols;
  float mean = 0, along = 0, length = 1;
  if (norms) {
    for (std::size_t c = threadIdx.x; c < unit.cols; c += kThreads) {
      mean += g[c];
      along += g[c] * u[c];
    }
    mean = block_sum(mean) / static_cast<float>(unit.cols);
    along = block_sum(along) / static_cast<float>(unit.cols);
    length = lengths[blockIdx.x];
  }
  for (std::size_t c = threadIdx.x; c < unit.cols; c += kThreads) {
    const float levelled = norms ? (g[c] - mean - along * u[c]) / length : g[c];
    g[c] = levelled * keep(dropout, first + c) * (1 - h[c] * h[c]);
  }
}

__global__ void cross_entropy_kernel(const std::uint32_t* classes, Ids ids, const float* bias, Panel outputs,
                                     double* losses) {
  float* row = row_of(outputs, blockIdx.x);
  const std::size_t truth = classes[id_of(ids, blockIdx.x)];
  const float share = 1 / static_cast<float>(outputs.rows);
  float largest = -INFINITY;
  for (std::size_t c = threadIdx.x; c < outputs.cols; c += kThreads) {
    row[c] += bias[c];
    largest = fmaxf(largest, row[c]);
  }
  largest = block_reduce(largest, -INFINITY, Larger{});
  // Read between two sums over the block: its bias has been added, and it is not replaced yet.
  const float right = row[truth];
  float sum = 0;
  for (std::size_t c = threadIdx.x; c < outputs.cols; c += kThreads) sum += expf(row[c] - largest);
  sum = block_sum(sum);
  const float factor = share / sum;
  for (std::size_t c = threadIdx.x; c < outputs.cols; c += kThreads) {
    row[c] = factor * expf(row[c] - largest) - (c == truth ? share : 0);
  }
  if (threadIdx.x == 0) losses[blockIdx.x] = share * (logf(sum) + largest - right);
}

__global__ void squared_error_kernel(ConstPanel targets, Ids ids, const float* bias, Panel outputs, double* losses) {
  float* row = row_of(outputs, blockIdx.x);
  const float* target = row_of(targets, id_of(ids, blockIdx.x));
  const auto values = static_cast<float>(outputs.rows * outputs.cols);
  float squares = 0;
  for (std::size_t c = threadIdx.x; c < outputs.cols; c += kThreads) {
    const float difference = row[c] + bias[c] - target[c];
    squares += difference * difference;
    row[c] = 2 / values * difference;
  }
  squares = block_sum(squares);
  if (threadIdx.x == 0) losses[blockIdx.x] = squares / values;
}

__device__ void sum_strip(const ColumnSum& sum, unsigned strip) {
  __shared__ float parts[kStrip / kWarp][kWarp + 1];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::size_t column = strip * std::size_t{kWarp} + lane;
  float part = 0;
  if (column < sum.values.cols) {
    for (std::size_t row = warp; row < sum.values.rows; row += kStrip / kWarp) {
      const std::size_t i = row * sum.values.stride + column;
      part += sum.others == nullptr ? sum.values.data[i] : sum.values.data[i] * sum.others[i];
    }
  }
  parts[warp][lane] = part;
  __syncthreads();
  if (warp != 0 || column >= sum.values.cols) return;
  float total = 0;
  for (unsigned w = 0; w < kStrip / kWarp; ++w) total += parts[w][lane];
  sum.to[column] = total;
}

constexpr double kBeta1 = 0.9F;  // float32 like the moments they belong to
constexpr double kBeta2 = 0.999F;
constexpr float kAdamEpsilon = 1e-8F;

__device__ __host__ unsigned strips(const ColumnSum& sum) {
  return static_cast<unsigned>((sum.values.cols + kWarp - 1) / kWarp);
}

/// A block to each strip of columns; one more adds the losses up and counts the step.
__global__ void sum_step_kernel(MlpSums sums, MlpAdam adam, MlpState* state) {
  unsigned strip = blockIdx.x;
  for (const ColumnSum& sum : sums.columns) {
    if (strip < strips(sum)) return sum_strip(sum, strip);
    strip -= strips(sum);
  }
  double loss = 0;
  for (std::size_t r = threadIdx.x; r < sums.rows; r += kStrip) loss += sums.losses[r];
  loss = block_sum(loss);
  if (threadIdx.x != 0) return;
  state->loss += loss;
  const double count = ++state->taken;
  // Rounded to float32 as on the processor: in early steps these differences are small, and rounding shows.
  state->rate = adam.learning_rate / (1 - static_cast<float>(pow(kBeta1, count)));
  state->root = sqrtf(1 - static_cast<float>(pow(kBeta2, count)));
}

__global__ void adam_kernel(const float* gradient, MlpAdam adam, const MlpState* state, std::size_t count,
                            float* parameters, float* first_moment, float* second_moment) {
  constexpr auto kFirst = static_cast<float>(kBeta1), kSecond = static_cast<float>(kBeta2);
  const std::size_t i = blockIdx.x * std::size_t{kAdamThreads} + threadIdx.x;
  if (i >= count) return;
  const float decayed = gradient[i] + adam.weight_decay * parameters[i];
  const float first = kFirst * first_moment[i] + (1 - kFirst) * decayed;
  const float second = kSecond * second_moment[i] + (1 - kSecond) * (decayed * decayed);
  first_moment[i] = first;
  second_moment[i] = second;
  parameters[i] -= state->rate * first / (sqrtf(second) / state->root + kAdamEpsilon);
}

}  // namespace

void level_rows(cudaStream_t stream, ConstPanel features, Ids ids, const float* scale, const float* shift, Panel unit,
                Panel scaled) {
  level_rows_kernel<<<blocks(scaled.rows), kThreads, 0, stream>>>(features, ids, scale, shift, unit, scaled);
  check_launch("to standardise rows");
}

void activate(cudaStream_t stream, const float* bias, const MlpDropout& dropout, bool norms, Panel hidden, Panel unit,
              float* lengths) {
  activate_kernel<<<blocks(hidden.rows), kThreads, 0, stream>>>(bias, dropout, norms, hidden, unit, lengths);
  check_launch("in the hidden layer");
}

void activate_backward(cudaStream_t stream, ConstPanel hidden, ConstPanel unit, const float* lengths,
                       const MlpDropout& dropout, bool norms, Panel gradient) {
  activate_backward_kernel<<<blocks(hidden.rows), kThreads, 0, stream>>>(hidden, unit, lengths, dropout, norms,
                                                                         gradient);
  check_launch("in the gradient of the hidden layer");
}

void cross_entropy(cudaStream_t stream, const std::uint32_t* classes, Ids ids, const float* bias, Panel outputs,
                   double* losses) {
  cross_entropy_kernel<<<blocks(outputs.rows), kThreads, 0, stream>>>(classes, ids, bias, outputs, losses);
  check_launch("in the cross-entropy");
}

void squared_error(cudaStream_t stream, ConstPanel targets, Ids ids, const float* bias, Panel outputs, double* losses) {
  squared_error_kernel<<<blocks(outputs.rows), kThreads, 0, stream>>>(targets, ids, bias, outputs, losses);
  check_launch("in the squared error");
}

void sum_step(cudaStream_t stream, const MlpSums& sums, const MlpAdam& adam, MlpState* state) {
  unsigned all = 1;
  for (const ColumnSum& sum : sums.columns) all += strips(sum);
  sum_step_kernel<<<all, kStrip, 0, stream>>>(sums, adam, state);
  check_launch("to sum gradients");
}

void step_parameters(cudaStream_t stream, const float* gradient, const MlpAdam& adam, const MlpState* state,
                     std::size_t count, float* parameters, float* first_moment, float* second_moment) {
  adam_kernel<<<blocks(count, kAdamThreads), kAdamThreads, 0, stream>>>(gradient, adam, state, count, parameters,
                                                                        first_moment, second_moment);
  check_launch("to step");
}

}  // namespace kedge::cuda
