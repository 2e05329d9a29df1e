// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/check.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"

namespace kedge::cuda {
namespace {

constexpr unsigned kThreads = 512;  // of a block, which works on one row

/// A product that no compiler joins with the sum after it: a mixture must be the same bits whichever kernel made it,
/// or training that was resumed would end elsewhere.
__device__ float times(float a, float b) {
  return __fmul_rn(a, b);
}

/// exp(x - most) summed, over whatever has been added so far.
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
  /// Of all threads of the block.
  __device__ Softmax of_block() const {
    const float all = block_reduce(most, -INFINITY, Larger{});
    return {all, block_sum(sum == 0 ? 0 : sum * expf(most - all))};
  }
};

/// Second half of a softmax: the row of logits is known to the block, and so are its maximum and sum.
template <int N>
__device__ void write_softmax(const float* logits, float inverse_temperature, Softmax all, std::size_t cols,
                              float* to) {
  const float inverse = 1 / all.sum;
  for (std::size_t k = threadIdx.x; k < cols / N; k += kThreads) {
    Floats<N> values = load<N>(logits, k);
    for (float& value : values.values) value = inverse * expf(times(inverse_temperature, value) - all.most);
    store<N>(to, k, values);
  }
}

template <int N>
__global__ void softmax_kernel(ConstPanel logits, float inverse_temperature, Panel mixture) {
  const float* row = logits.data + blockIdx.x * logits.stride;
  Softmax own;
  for (std::size_t k = threadIdx.x; k < logits.cols / N; k += kThreads) {
    for (const float value : load<N>(row, k).values) own.add(times(inverse_temperature, value));
  }
  write_softmax<N>(row, inverse_temperature, own.of_block(), logits.cols, mixture.data + blockIdx.x * mixture.stride);
}

/// What the step's number makes of Adam's options.
struct AdamFactors {
  float rate, root;
};

/// Written by one thread: the block must meet before it is read.
__device__ void make_factors(const AdamStep& adam, AdamFactors& to) {
  if (threadIdx.x != 0) return;
  const double count = *adam.taken + 1.0;
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

template <int N>
__global__ void step_logits_kernel(ConstPanel dmixture, float inverse_temperature, AdamStep adam, Panel logits,
                                   Panel first, Panel second, Panel mixture) {
  __shared__ AdamFactors factors;
  make_factors(adam, factors);
  const std::size_t groups = logits.cols / N;
  const float* dp = dmixture.data + blockIdx.x * dmixture.stride;
  float* p = mixture.data + blockIdx.x * mixture.stride;
  float* q = logits.data + blockIdx.x * logits.stride;
  float* m = first.data + blockIdx.x * first.stride;
  float* v = second.data + blockIdx.x * second.stride;
  float dot = 0;
  for (std::size_t k = threadIdx.x; k < groups; k += kThreads) {
    const Floats<N> weights = load<N>(p, k), gradients = load<N>(dp, k);
    for (int i = 0; i < N; ++i) dot += weights.values[i] * gradients.values[i];
  }
  const float inner = block_sum(dot);
  Softmax own;
  for (std::size_t k = threadIdx.x; k < groups; k += kThreads) {
    const Floats<N> weights = load<N>(p, k), gradients = load<N>(dp, k);
    Floats<N> values = load<N>(q, k), firsts = load<N>(m, k), seconds = load<N>(v, k);
    for (int i = 0; i < N; ++i) {
      const float gradient = inverse_temperature * weights.values[i] * (gradients.values[i] - inner);
      move(adam, factors, gradient, values.values[i], firsts.values[i], seconds.values[i]);
      own.add(times(inverse_temperature, values.values[i]));
    }
    store<N>(q, k, values);
    store<N>(m, k, firsts);
    store<N>(v, k, seconds);
  }
  // Each thread reads back only logits it wrote itself.
  write_softmax<N>(q, inverse_temperature, own.of_block(), logits.cols, p);
}

__global__ void step_values_kernel(ConstPanel dvalues, AdamStep adam, Panel values, Panel first, Panel second) {
  __shared__ AdamFactors factors;
  make_factors(adam, factors);
  __syncthreads();
  const std::size_t row = blockIdx.x;
  for (std::size_t c = threadIdx.x; c < values.cols; c += kThreads) {
    move(adam, factors, dvalues.data[row * dvalues.stride + c], values.data[row * values.stride + c],
         first.data[row * first.stride + c], second.data[row * second.stride + c]);
  }
}

__global__ void end_step_kernel(Panel losses, Panel log, std::uint32_t* taken) {
  float* row = log.data + *taken % log.rows * log.stride;
  for (std::size_t c = threadIdx.x; c < losses.cols; c += kThreads) {
    row[c] = losses.data[c];
    losses.data[c] = 0;
  }
  __syncthreads();
  if (threadIdx.x == 0) ++*taken;
}

unsigned blocks(std::size_t rows) {
  return static_cast<unsigned>(rows);
}

}  // namespace

void softmax_rows(cudaStream_t stream, ConstPanel logits, float temperature, Panel mixture) {
  const bool fours = in_fours(logits) && in_fours(mixture);
  const auto kernel = fours ? softmax_kernel<4> : softmax_kernel<1>;
  kernel<<<blocks(logits.rows), kThreads, 0, stream>>>(logits, 1 / temperature, mixture);
  check_launch("to make a mixture");
}

void step_logits(cudaStream_t stream, ConstPanel dmixture, float temperature, const AdamStep& adam, Panel logits,
                 Panel first_moment, Panel second_moment, Panel mixture) {
  const bool fours =
      in_fours(dmixture) && in_fours(logits) && in_fours(first_moment) && in_fours(second_moment) && in_fours(mixture);
  const auto kernel = fours ? step_logits_kernel<4> : step_logits_kernel<1>;
  kernel<<<blocks(logits.rows), kThreads, 0, stream>>>(dmixture, 1 / temperature, adam, logits, first_moment,
                                                       second_moment, mixture);
  check_launch("to step");
}

void step_values(cudaStream_t stream, ConstPanel dvalues, const AdamStep& adam, Panel values, Panel first_moment,
                 Panel second_moment) {
  step_values_kernel<<<blocks(values.rows), kThreads, 0, stream>>>(dvalues, adam, values, first_moment, second_moment);
  check_launch("to step");
}

void end_step(cudaStream_t stream, Panel losses, Panel log, std::uint32_t* taken) {
  end_step_kernel<<<1, kThreads, 0, stream>>>(losses, log, taken);
  check_launch("to end a step");
}

}  // namespace kedge::cuda
