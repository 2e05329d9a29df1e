// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/device.cuh"

namespace kedge::cuda {
namespace {

constexpr unsigned kThreads = 256;  // of a block, which works on a row or a part of one
constexpr unsigned kResident = 5;   // blocks of a multiprocessor, so that all those of 300 rows start at once
constexpr unsigned kMostBlocks = 8;
constexpr std::size_t kEnoughValues = 2560;  // of a row, for one block

/// A product that the compiler does not fuse with the sum after it: all kernels must make the same bits of a softmax,
/// or resumed training would end elsewhere.
__device__ float times(float a, float b) {
  return __fmul_rn(a, b);
}

/// The sum of exp(x - most) over all x added so far.
struct Softmax {
  float most = -INFINITY, sum = 0;

  __device__ void add(float x) {
    if (x > most) {
      sum = sum * expf(most - x) + 1;
      most = x;
    } else {
      sum += expf(x - most);
    }
  }
  [[nodiscard]] __device__ float sum_below(float all) const { return sum == 0 ? 0 : sum * expf(most - all); }
  /// The block's own part, of all its threads.
  __device__ void write_of_block(float2* parts) const {
    const float all = block_reduce(most, -INFINITY, Larger{});
    const float below = block_sum(sum_below(all));
    if (threadIdx.x == 0) parts[blockIdx.x] = {all, below};
  }
};

/// The part of a row that is this block's, of `blocks` that work on it.
struct Share {
  std::size_t row, first, end;  ///< groups of N columns

  __device__ Share(std::size_t count, unsigned blocks) : row(blockIdx.x / blocks) {
    const std::size_t each = (count + blocks - 1) / blocks, rank = blockIdx.x % blocks;
    first = min(rank * each, count);
    end = min(first + each, count);
  }
};

/// First half of a softmax: the largest value and the sum of each block's part of a row.
template <int N>
__global__ void __launch_bounds__(kThreads)
    softmax_parts_kernel(ConstPanel logits, float inverse_temperature, unsigned blocks, float2* parts) {
  const Share share(logits.cols / N, blocks);
  Softmax own;
  for (std::size_t k = share.first + threadIdx.x; k < share.end; k += kThreads) {
    for (const float value : load<N>(row_of(logits, share.row), k).values) own.add(times(inverse_temperature, value));
  }
  own.write_of_block(parts);
}

/// Second half: all parts of a row, in their order, make its softmax.
template <int N>
__global__ void __launch_bounds__(kThreads)
    softmax_kernel(ConstPanel logits, float inverse_temperature, unsigned blocks, const float2* parts, Panel softmax) {
  const Share share(logits.cols / N, blocks);
  Softmax all;
  parts += share.row * blocks;
  for (unsigned i = 0; i < blocks; ++i) all.most = fmaxf(all.most, parts[i].x);
  for (unsigned i = 0; i < blocks; ++i) all.sum += Softmax{parts[i].x, parts[i].y}.sum_below(all.most);
  __nv_bfloat16* narrow = nullptr;
  if (softmax.narrow != nullptr) {
    narrow = static_cast<__nv_bfloat16*>(softmax.narrow) + share.row * narrow_stride(softmax.cols);
  }
  const float inverse = 1 / all.sum;
  for (std::size_t k = share.first + threadIdx.x; k < share.end; k += kThreads) {
    Floats<N> values = load<N>(row_of(logits, share.row), k);
    for (float& value : values.values) value = inverse * expf(times(inverse_temperature, value) - all.most);
    store<N>(row_of(softmax, share.row), k, values);
    if (narrow != nullptr) store_narrow<N>(narrow, k, values);
  }
}

/// Adam's factors that depend on the number of the step.
struct AdamFactors {
  float rate, root;
};

/// One thread writes them; the block has to synchronise before it reads them.
__device__ void make_factors(const AdamStep& adam, AdamFactors& to) {
  if (threadIdx.x != 0) return;
  const double count = *adam.number;
  to.rate = static_cast<float>(adam.learning_rate / (1 - pow(static_cast<double>(adam.beta1), count)));
  to.root = static_cast<float>(1 / sqrt(1 - pow(static_cast<double>(adam.beta2), count)));
}

__device__ void move(const AdamStep& adam, const AdamFactors& by, float gradient, float& value, float& first,
                     float& second) {
  first = adam.beta1 * first + (1 - adam.beta1) * gradient;
  second = adam.beta2 * second + (1 - adam.beta2) * gradient * gradient;
  value =
      (1 - adam.learning_rate * adam.weight_decay) * value - by.rate * first / (sqrtf(second) * by.root + adam.epsilon);
}

struct LogitsStep {
  ConstPanel dsoftmax, inner;
  float inverse_temperature;
  AdamStep adam;
  Panel logits, first, second, softmax;
};

/// Adam's step for a part of a row, and the first half of the softmax of what comes out.
template <int N>
__global__ void __launch_bounds__(kThreads, kResident)
    step_logits_kernel(const __grid_constant__ LogitsStep o, unsigned blocks, float2* parts) {
  __shared__ AdamFactors factors;
  const Share share(o.logits.cols / N, blocks);
  const float* gradients = row_of(o.dsoftmax, share.row);
  const float* weights = row_of(o.softmax, share.row);
  float *logits = row_of(o.logits, share.row), *first = row_of(o.first, share.row),
        *second = row_of(o.second, share.row);
  make_factors(o.adam, factors);
  const float inner = *row_of(o.inner, share.row);
  __syncthreads();
  Softmax softmax;
  for (std::size_t k = share.first + threadIdx.x; k < share.end; k += kThreads) {
    const Floats<N> dsoftmax = load<N>(gradients, k), weight = load<N>(weights, k);
    Floats<N> logit = load<N>(logits, k), moment = load<N>(first, k), square = load<N>(second, k);
    for (int i = 0; i < N; ++i) {
      const float gradient = o.inverse_temperature * weight.values[i] * (dsoftmax.values[i] - inner);
      move(o.adam, factors, gradient, logit.values[i], moment.values[i], square.values[i]);
      softmax.add(times(o.inverse_temperature, logit.values[i]));
    }
    store<N>(logits, k, logit);
    store<N>(first, k, moment);
    store<N>(second, k, square);
  }
  softmax.write_of_block(parts);
}

__global__ void step_values_kernel(ConstPanel dvalues, AdamStep adam, Panel values, Panel first, Panel second) {
  __shared__ AdamFactors factors;
  make_factors(adam, factors);
  __syncthreads();
  const std::size_t row = blockIdx.x;
  for (std::size_t c = threadIdx.x; c < values.cols; c += kThreads) {
    move(adam, factors, row_of(dvalues, row)[c], row_of(values, row)[c], row_of(first, row)[c], row_of(second, row)[c]);
  }
}

__global__ void end_step_kernel(Panel losses, Panel log, std::uint32_t* taken) {
  float* row = row_of(log, *taken % log.rows);
  for (std::size_t c = threadIdx.x; c < losses.cols; c += kThreads) {
    row[c] = losses.data[c];
    losses.data[c] = 0;
  }
  __syncthreads();
  if (threadIdx.x == 0) ++*taken;
}

/// How many blocks work on a row. All kernels that make a softmax agree on it, so that they make the same bits.
unsigned blocks_of_row(std::size_t cols) {
  unsigned count = 1;
  while (count < kMostBlocks && cols > count * kEnoughValues) count *= 2;
  return count;
}

void finish_softmax(cudaStream_t stream, ConstPanel logits, float temperature, const float2* parts, Panel softmax) {
  const unsigned per_row = blocks_of_row(logits.cols);
  const auto kernel = in_fours(logits, softmax) ? softmax_kernel<4> : softmax_kernel<1>;
  launch(kernel, blocks(logits.rows * per_row), kThreads, stream, "in a softmax", logits, 1 / temperature, per_row,
         parts, softmax);
}

}  // namespace

std::size_t softmax_scratch(ConstPanel logits) {
  static_assert(sizeof(float2) == sizeof(double));
  return logits.rows * blocks_of_row(logits.cols);
}

void softmax_rows(cudaStream_t stream, ConstPanel logits, float temperature, Panel softmax, double* scratch) {
  auto* parts = reinterpret_cast<float2*>(scratch);
  const unsigned per_row = blocks_of_row(logits.cols);
  const auto kernel = in_fours(logits, softmax) ? softmax_parts_kernel<4> : softmax_parts_kernel<1>;
  launch(kernel, blocks(logits.rows * per_row), kThreads, stream, "in a softmax", logits, 1 / temperature, per_row,
         parts);
  finish_softmax(stream, logits, temperature, parts, softmax);
}

void step_logits(cudaStream_t stream, ConstPanel dsoftmax, ConstPanel inner, float temperature, const AdamStep& adam,
                 Panel logits, Panel first_moment, Panel second_moment, Panel softmax, double* scratch) {
  auto* parts = reinterpret_cast<float2*>(scratch);
  const unsigned per_row = blocks_of_row(logits.cols);
  const auto kernel =
      in_fours(dsoftmax, logits, first_moment, second_moment, softmax) ? step_logits_kernel<4> : step_logits_kernel<1>;
  launch(kernel, blocks(logits.rows * per_row), kThreads, stream, "to step",
         LogitsStep{dsoftmax, inner, 1 / temperature, adam, logits, first_moment, second_moment, softmax}, per_row,
         parts);
  finish_softmax(stream, logits, temperature, parts, softmax);
}

void step_values(cudaStream_t stream, ConstPanel dvalues, const AdamStep& adam, Panel values, Panel first_moment,
                 Panel second_moment) {
  launch(step_values_kernel, blocks(values.rows), kThreads, stream, "to step", dvalues, adam, values, first_moment,
         second_moment);
}

void end_step(cudaStream_t stream, Panel losses, Panel log, std::uint32_t* taken) {
  launch(end_step_kernel, 1, kThreads, stream, "to end a step", losses, log, taken);
}

}  // namespace kedge::cuda
