// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/check.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.cuh"
#include "compute/cuda/many.cuh"
#include "compute/cuda/reduce.cuh"
#include "compute/cuda/vector.cuh"

#include <algorithm>

namespace kedge::cuda {
namespace {

constexpr unsigned kThreads = 128;  // of a block, which works on one row

unsigned blocks(std::size_t rows) {
  return static_cast<unsigned>(rows);
}

__global__ void fill_kernel(const __grid_constant__ Many<Fill> many) {
  const Panel x = many.mine().x;
  wait_for_earlier();
  if (blockIdx.x >= x.rows) return;
  float* row = x.data + blockIdx.x * x.stride;
  for (std::size_t c = threadIdx.x; c < x.cols; c += kThreads) row[c] = many.mine().value;
}

template <int N>
__global__ void narrow_kernel(ConstPanel x, __nv_bfloat16* to, std::size_t stride) {
  const float* row = x.data + blockIdx.x * x.stride;
  for (std::size_t c = blockIdx.y * kThreads + threadIdx.x; c < x.cols / N; c += gridDim.y * kThreads) {
    store_narrow<N>(to + blockIdx.x * stride, c, load<N>(row, c));
  }
}

/// A warp's width of rows and columns to a block.
__global__ void turn_kernel(ConstPanel from, Panel to) {
  __shared__ float tile[kWarp][kWarp + 1];
  const std::size_t top = blockIdx.x * std::size_t{kWarp}, left = blockIdx.y * std::size_t{kWarp};
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned i = threadIdx.x / kWarp; i < kWarp; i += kThreads / kWarp) {
    if (top + i < from.rows && left + lane < from.cols)
      tile[i][lane] = from.data[(top + i) * from.stride + left + lane];
  }
  __syncthreads();
  for (unsigned i = threadIdx.x / kWarp; i < kWarp; i += kThreads / kWarp) {
    if (left + i < to.rows && top + lane < to.cols) to.data[(left + i) * to.stride + top + lane] = tile[lane][i];
  }
}

template <int N>
__device__ void gather(const Gather& o, std::size_t row) {
  const std::size_t batch = o.ids.turn == nullptr ? 0 : *o.ids.turn % o.ids.batches;
  const float* source = o.from.data + o.ids.data[batch * o.ids.count + row] * o.from.stride;
  float* own = o.to.data + row * o.to.stride;
#pragma unroll 4
  for (std::size_t c = threadIdx.x; c < o.to.cols / N; c += kThreads) store<N>(own, c, load<N>(source, c));
}

__global__ void gather_kernel(const __grid_constant__ Many<Gather> many) {
  const Gather& o = many.mine();
  wait_for_earlier();
  if (blockIdx.x >= o.to.rows) return;
  in_fours(o.from) && in_fours(o.to) ? gather<4>(o, blockIdx.x) : gather<1>(o, blockIdx.x);
}

/// The row of this warp, or one beyond the last. Rows are too short for a whole block to be worth its barriers.
__device__ std::size_t warp_row() {
  return blockIdx.x * std::size_t{kThreads / kWarp} + threadIdx.x / kWarp;
}

template <int N>
__device__ float dot_of(const float* a, const float* b, std::size_t cols) {
  float sum = 0;
#pragma unroll 4
  for (std::size_t c = threadIdx.x % kWarp; c < cols / N; c += kWarp) {
    const Floats<N> x = load<N>(a, c), y = load<N>(b, c);
    for (int i = 0; i < N; ++i) sum += x.values[i] * y.values[i];
  }
  return warp_reduce(sum, Plus{});
}

template <int N>
__global__ void lengths_kernel(ConstPanel x, Panel lengths) {
  const std::size_t row = warp_row();
  if (row >= x.rows) return;
  const float* own = x.data + row * x.stride;
  const float length = sqrtf(dot_of<N>(own, own, x.cols));
  if (threadIdx.x % kWarp == 0) lengths.data[row * lengths.stride] = length;
}

template <int N>
__global__ void dots_kernel(ConstPanel x, ConstPanel y, Panel dots) {
  const std::size_t row = warp_row();
  wait_for_earlier();
  if (row >= x.rows) return;
  const float dot = dot_of<N>(x.data + row * x.stride, y.data + row * y.stride, x.cols);
  if (threadIdx.x % kWarp == 0) dots.data[row * dots.stride] = dot;
}

template <int N>
__device__ void normalize(const Normalize& o, std::size_t row) {
  const float* own = o.x.data + row * o.x.stride;
  float* out = o.unit.data + row * o.unit.stride;
  float* again = o.again.data == nullptr ? nullptr : o.again.data + row * o.again.stride;
  const float length = sqrtf(dot_of<N>(own, own, o.x.cols));
  const float inverse = length > 0 ? 1 / length : 0;
#pragma unroll 4
  for (std::size_t c = threadIdx.x % kWarp; c < o.x.cols / N; c += kWarp) {
    Floats<N> x = load<N>(own, c);
    for (float& value : x.values) value *= inverse;
    store<N>(out, c, x);
    if (again != nullptr) store<N>(again, c, x);
  }
  if (threadIdx.x % kWarp == 0) o.lengths.data[row * o.lengths.stride] = length;
}

/// How a row is read depends on that row alone, so the bits are the same whatever else is in the launch.
__global__ void normalize_kernel(const __grid_constant__ Many<Normalize> many) {
  const Normalize& o = many.mine();
  const std::size_t row = warp_row();
  wait_for_earlier();
  if (row >= o.x.rows) return;
  const bool fours = in_fours(o.x) && in_fours(o.unit) && (o.again.data == nullptr || in_fours(o.again));
  fours ? normalize<4>(o, row) : normalize<1>(o, row);
}

template <int N>
__device__ void normalize_backward(const NormalizeBackward& o, std::size_t row) {
  const float* u = o.unit.data + row * o.unit.stride;
  const float* du = o.dunit.data + row * o.dunit.stride;
  float* out = o.dx.data + row * o.dx.stride;
  const float along = dot_of<N>(u, du, o.unit.cols);
  const float length = o.lengths.data[row * o.lengths.stride];
  const float inverse = length > 0 ? 1 / length : 0;
#pragma unroll 4
  for (std::size_t c = threadIdx.x % kWarp; c < o.unit.cols / N; c += kWarp) {
    const Floats<N> unit = load<N>(u, c), dunit = load<N>(du, c);
    Floats<N> x{};
    if (o.beta != 0) x = load<N>(out, c);
    for (int i = 0; i < N; ++i) {
      x.values[i] = o.beta * x.values[i] + inverse * (dunit.values[i] - along * unit.values[i]);
    }
    store<N>(out, c, x);
  }
}

__global__ void normalize_backward_kernel(const __grid_constant__ Many<NormalizeBackward> many) {
  const NormalizeBackward& o = many.mine();
  const std::size_t row = warp_row();
  wait_for_earlier();
  if (row >= o.unit.rows) return;
  const bool fours = in_fours(o.unit) && in_fours(o.dunit) && in_fours(o.dx);
  fours ? normalize_backward<4>(o, row) : normalize_backward<1>(o, row);
}

/// Blocks for a warp to each row.
std::size_t warp_blocks(std::size_t rows) {
  return (rows + kThreads / kWarp - 1) / (kThreads / kWarp);
}

}  // namespace

void run(cudaStream_t stream, std::span<const Fill> all) {
  const dim3 grid = grid_of(all, [](const Fill& o) { return o.x.rows; });
  launch(stream, {grid, kThreads}, "to fill a matrix", fill_kernel, many_of(all));
}

void narrow(cudaStream_t stream, ConstPanel x, __nv_bfloat16* to, std::size_t stride) {
  constexpr unsigned kMost = 16;  // blocks that share a long row
  const auto shares = static_cast<unsigned>(std::min<std::size_t>((x.cols / 4 + kThreads) / kThreads, kMost));
  const auto kernel = in_fours(x) && stride % 4 == 0 ? narrow_kernel<4> : narrow_kernel<1>;
  kernel<<<dim3(blocks(x.rows), shares), kThreads, 0, stream>>>(x, to, stride);
  check_launch("to narrow a matrix");
}

void turn(cudaStream_t stream, ConstPanel from, Panel to) {
  const auto tiles = [](std::size_t size) { return blocks((size + kWarp - 1) / kWarp); };
  turn_kernel<<<dim3(tiles(from.rows), tiles(from.cols)), kThreads, 0, stream>>>(from, to);
  check_launch("to turn a matrix");
}

void run(cudaStream_t stream, std::span<const Gather> all) {
  const dim3 grid = grid_of(all, [](const Gather& o) { return o.to.rows; });
  launch(stream, {grid, kThreads}, "to gather rows", gather_kernel, many_of(all));
}

void row_lengths(cudaStream_t stream, ConstPanel x, Panel lengths) {
  const auto kernel = in_fours(x) ? lengths_kernel<4> : lengths_kernel<1>;
  kernel<<<blocks(warp_blocks(x.rows)), kThreads, 0, stream>>>(x, lengths);
  check_launch("to measure rows");
}

void row_dots(cudaStream_t stream, ConstPanel x, ConstPanel y, Panel dots) {
  const auto kernel = in_fours(x) && in_fours(y) ? dots_kernel<4> : dots_kernel<1>;
  launch(stream, {dim3(blocks(warp_blocks(x.rows))), kThreads}, "to multiply rows", kernel, x, y, dots);
}

void run(cudaStream_t stream, std::span<const Normalize> all) {
  const dim3 grid = grid_of(all, [](const Normalize& o) { return warp_blocks(o.x.rows); });
  launch(stream, {grid, kThreads}, "to normalise rows", normalize_kernel, many_of(all));
}

void run(cudaStream_t stream, std::span<const NormalizeBackward> all) {
  const dim3 grid = grid_of(all, [](const NormalizeBackward& o) { return warp_blocks(o.unit.rows); });
  launch(stream, {grid, kThreads}, "in the gradient of normalised rows", normalize_backward_kernel, many_of(all));
}

}  // namespace kedge::cuda
