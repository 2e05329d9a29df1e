// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/check.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.cuh"
#include "compute/cuda/reduce.cuh"
#include "compute/cuda/vector.cuh"

#include <cooperative_groups.h>

#include <algorithm>

namespace kedge::cuda {
namespace {

namespace groups = cooperative_groups;

constexpr unsigned kThreads = 256;  // of a block, which works on a row, or with others of its cluster on one
constexpr unsigned kResident = 5;   // blocks of a multiprocessor, so that all those of 300 rows start at once
constexpr unsigned kMostBlocks = 8;
constexpr std::size_t kEnoughValues = 2560;  // of a row, for one block
constexpr std::size_t kMostKept = 12'000;    // floats that a block may keep: its shared memory holds 48 KiB

/// A product that no compiler joins with the sum after it: a softmax must be the same bits whichever kernel made it,
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
  [[nodiscard]] __device__ float sum_below(float all) const { return sum == 0 ? 0 : sum * expf(most - all); }
  /// Of all threads of the block.
  [[nodiscard]] __device__ Softmax of_block() const {
    const float all = block_reduce(most, -INFINITY, Larger{});
    return {all, block_sum(sum_below(all))};
  }
};

/// Blocks that work on a row between them, and the part of this one.
struct Share {
  std::size_t first, end;  ///< groups of N columns

  __device__ Share(std::size_t count, unsigned blocks) {
    const std::size_t each = (count + blocks - 1) / blocks, rank = blockIdx.x % blocks;
    first = min(rank * each, count);
    end = min(first + each, count);
  }
};

/// Of all blocks that work on the row, in the order of their parts. They have to wait for each other before they end.
__device__ Softmax of_cluster(Softmax own, unsigned blocks) {
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    __shared__ float2 part;
    const groups::cluster_group cluster = groups::this_cluster();
    if (threadIdx.x == 0) part = {own.most, own.sum};
    cluster.sync();
    Softmax each[kMostBlocks], all;
#pragma unroll
    for (unsigned i = 0; i < kMostBlocks; ++i) {
      if (i >= blocks) break;
      const float2 theirs = *cluster.map_shared_rank(&part, i);
      each[i] = {theirs.x, theirs.y};
      all.most = fmaxf(all.most, theirs.x);
    }
#pragma unroll
    for (unsigned i = 0; i < kMostBlocks; ++i) all.sum += each[i].sum_below(all.most);
    return all;
  }
#endif
  return own;
}

__device__ void end_cluster(unsigned blocks) {
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) groups::this_cluster().sync();
#endif
}

/// Second half of a softmax: the row of logits is known to the block, and so are its maximum and sum.
template <int N>
__device__ void write_softmax(const float* logits, float inverse_temperature, Softmax all, Share share,
                              const Panel& softmax, std::size_t row) {
  float* to = softmax.data + row * softmax.stride;
  __nv_bfloat16* narrow = nullptr;
  if (softmax.narrow != nullptr) {
    narrow = static_cast<__nv_bfloat16*>(softmax.narrow) + row * narrow_stride(softmax.cols);
  }
  const float inverse = 1 / all.sum;
  for (std::size_t k = share.first + threadIdx.x; k < share.end; k += kThreads) {
    Floats<N> values = load<N>(logits, k);
    for (float& value : values.values) value = inverse * expf(times(inverse_temperature, value) - all.most);
    store<N>(to, k, values);
    if (narrow != nullptr) store_narrow<N>(narrow, k, values);
  }
}

template <int N>
__global__ void __launch_bounds__(kThreads)
    softmax_kernel(ConstPanel logits, float inverse_temperature, Panel softmax, unsigned blocks) {
  const std::size_t row = blockIdx.x / blocks;
  const Share share(logits.cols / N, blocks);
  const float* from = logits.data + row * logits.stride;
  wait_for_earlier();
  Softmax own;
  for (std::size_t k = share.first + threadIdx.x; k < share.end; k += kThreads) {
    for (const float value : load<N>(from, k).values) own.add(times(inverse_temperature, value));
  }
  const Softmax all = of_cluster(own.of_block(), blocks);
  write_softmax<N>(from, inverse_temperature, all, share, softmax, row);
  end_cluster(blocks);
}

/// What the step's number makes of Adam's options.
struct AdamFactors {
  float rate, root;
};

/// Written by one thread: the block must meet before it is read.
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

/// A row of each matrix of a step.
struct StepRow {
  const float* gradients;
  float *weights, *logits, *first, *second;

  __device__ StepRow(const LogitsStep& o, std::size_t row)
      : gradients(o.dsoftmax.data + row * o.dsoftmax.stride),
        weights(o.softmax.data + row * o.softmax.stride),
        logits(o.logits.data + row * o.logits.stride),
        first(o.first.data + row * o.first.stride),
        second(o.second.data + row * o.second.stride) {}
};

template <int N>
struct StepValues {
  Floats<N> gradients, weights, logits, first, second;

  __device__ StepValues(const StepRow& row, std::size_t k)
      : gradients(load<N>(row.gradients, k)),
        weights(load<N>(row.weights, k)),
        logits(load<N>(row.logits, k)),
        first(load<N>(row.first, k)),
        second(load<N>(row.second, k)) {}
};

/// Where `keep` says so, the block keeps its logits until it makes the softmax of them; otherwise each thread reads
/// back those it wrote itself.
template <int N>
__global__ void __launch_bounds__(kThreads, kResident)
    step_logits_kernel(const __grid_constant__ LogitsStep o, unsigned blocks, bool keep) {
  extern __shared__ float4 kept[];
  __shared__ AdamFactors factors;
  const std::size_t row = blockIdx.x / blocks;
  const Share share(o.logits.cols / N, blocks);
  const StepRow own(o, row);
  wait_for_earlier();
  make_factors(o.adam, factors);
  const float inner = o.inner.data[row * o.inner.stride];
  float* held = keep ? reinterpret_cast<float*>(kept) - share.first * N : own.logits;
  __syncthreads();
  Softmax softmax;
  for (std::size_t k = share.first + threadIdx.x; k < share.end; k += kThreads) {
    StepValues<N> values(own, k);
    for (int i = 0; i < N; ++i) {
      const float gradient = o.inverse_temperature * values.weights.values[i] * (values.gradients.values[i] - inner);
      move(o.adam, factors, gradient, values.logits.values[i], values.first.values[i], values.second.values[i]);
      softmax.add(times(o.inverse_temperature, values.logits.values[i]));
    }
    store<N>(own.logits, k, values.logits);
    store<N>(own.first, k, values.first);
    store<N>(own.second, k, values.second);
    if (keep) store<N>(held, k, values.logits);
  }
  const Softmax all = of_cluster(softmax.of_block(), blocks);
  write_softmax<N>(held, o.inverse_temperature, all, share, o.softmax, row);
  end_cluster(blocks);
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
  wait_for_earlier();
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

/// How many blocks work on a row: a power of two, the same for all kernels that make a softmax.
unsigned blocks_of_row(std::size_t cols) {
  unsigned count = 1;
  while (is_hopper_or_later() && count < kMostBlocks && cols > count * kEnoughValues) count *= 2;
  return count;
}

}  // namespace

void softmax_rows(cudaStream_t stream, ConstPanel logits, float temperature, Panel softmax) {
  const bool fours = in_fours(logits) && in_fours(softmax);
  const unsigned per_row = blocks_of_row(logits.cols);
  launch(stream, {dim3(blocks(logits.rows * per_row)), kThreads, 0, per_row}, "in a softmax",
         fours ? softmax_kernel<4> : softmax_kernel<1>, logits, 1 / temperature, softmax, per_row);
}

void step_logits(cudaStream_t stream, ConstPanel dsoftmax, ConstPanel inner, float temperature, const AdamStep& adam,
                 Panel logits, Panel first_moment, Panel second_moment, Panel softmax) {
  const bool fours =
      in_fours(dsoftmax) && in_fours(logits) && in_fours(first_moment) && in_fours(second_moment) && in_fours(softmax);
  const unsigned per_row = blocks_of_row(logits.cols);
  const std::size_t values = (logits.cols / per_row + 8) / 4 * 4;  // no less than a block's part
  const bool keep = values <= kMostKept;
  const Shape shape{dim3(blocks(logits.rows * per_row)), kThreads, keep ? values * sizeof(float) : 0, per_row};
  launch(stream, shape, "to step", fours ? step_logits_kernel<4> : step_logits_kernel<1>,
         LogitsStep{dsoftmax, inner, 1 / temperature, adam, logits, first_moment, second_moment, softmax}, per_row,
         keep);
}

void step_values(cudaStream_t stream, ConstPanel dvalues, const AdamStep& adam, Panel values, Panel first_moment,
                 Panel second_moment) {
  step_values_kernel<<<blocks(values.rows), kThreads, 0, stream>>>(dvalues, adam, values, first_moment, second_moment);
  check_launch("to step");
}

void end_step(cudaStream_t stream, Panel losses, Panel log, std::uint32_t* taken) {
  launch(stream, {dim3(1), kThreads}, "to end a step", end_step_kernel, losses, log, taken);
}

}  // namespace kedge::cuda
