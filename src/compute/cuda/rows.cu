// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/dense.h"
#include "compute/cuda/device.cuh"

#include <algorithm>

namespace kedge::cuda {
namespace {

constexpr unsigned kThreads = 128;  // of a block, which works on one row, or a warp of it on one

__global__ void fill_kernel(const __grid_constant__ Many<Fill> many) {
  const Panel x = many.mine().x;
  if (blockIdx.x >= x.rows) return;
  for (std::size_t c = threadIdx.x; c < x.cols; c += kThreads) row_of(x, blockIdx.x)[c] = many.mine().value;
}

template <int N>
__global__ void narrow_kernel(ConstPanel x, __nv_bfloat16* to, std::size_t stride) {
  const float* row = row_of(x, blockIdx.x);
  for (std::size_t c = blockIdx.y * kThreads + threadIdx.x; c < x.cols / N; c += gridDim.y * kThreads) {
    store_narrow<N>(to + blockIdx.x * stride, c, load<N>(row, c));
  }
}

/// A block per tile, which is as wide and high as a warp.
__global__ void turn_kernel(ConstPanel from, Panel to) {
  __shared__ float tile[kWarp][kWarp + 1];
  const std::size_t top = blockIdx.x * std::size_t{kWarp}, left = blockIdx.y * std::size_t{kWarp};
  const unsigned lane = threadIdx.x % kWarp;
  for (unsigned i = threadIdx.x / kWarp; i < kWarp; i += kThreads / kWarp) {
    if (top + i < from.rows && left + lane < from.cols) tile[i][lane] = row_of(from, top + i)[left + lane];
  }
  __syncthreads();
  for (unsigned i = threadIdx.x / kWarp; i < kWarp; i += kThreads / kWarp) {
    if (left + i < to.rows && top + lane < to.cols) row_of(to, left + i)[top + lane] = tile[lane][i];
  }
}

template <int N>
__device__ void gather(const Gather& o, std::size_t row) {
  const std::size_t batch = o.ids.turn == nullptr ? 0 : *o.ids.turn % o.ids.batches;
  const float* source = row_of(o.from, o.ids.data[batch * o.ids.count + row]);
#pragma unroll 4
  for (std::size_t c = threadIdx.x; c < o.to.cols / N; c += kThreads)
    store<N>(row_of(o.to, row), c, load<N>(source, c));
}

__global__ void gather_kernel(const __grid_constant__ Many<Gather> many) {
  const Gather& o = many.mine();
  if (blockIdx.x >= o.to.rows) return;
  in_fours(o.from, o.to) ? gather<4>(o, blockIdx.x) : gather<1>(o, blockIdx.x);
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

/// The products of rows, or their square roots.
template <int N>
__global__ void dots_kernel(ConstPanel x, ConstPanel y, bool root, Panel dots) {
  const std::size_t row = warp_row();
  if (row >= x.rows) return;
  const float dot = dot_of<N>(row_of(x, row), row_of(y, row), x.cols);
  if (threadIdx.x % kWarp == 0) *row_of(dots, row) = root ? sqrtf(dot) : dot;
}

template <int N>
__device__ void normalize(const Normalize& o, std::size_t row) {
  const float* own = row_of(o.x, row);
  const float length = sqrtf(dot_of<N>(own, own, o.x.cols));
  const float inverse = length > 0 ? 1 / length : 0;
#pragma unroll 4
  for (std::size_t c = threadIdx.x % kWarp; c < o.x.cols / N; c += kWarp) {
    Floats<N> x = load<N>(own, c);
    for (float& value : x.values) value *= inverse;
    store<N>(row_of(o.unit, row), c, x);
    if (o.again.data != nullptr) store<N>(row_of(o.again, row), c, x);
  }
  if (threadIdx.x % kWarp == 0) *row_of(o.lengths, row) = length;
}

/// How a row is read depends on its own operation alone, so the bits are the same whatever else is in the launch.
__global__ void normalize_kernel(const __grid_constant__ Many<Normalize> many) {
  const Normalize& o = many.mine();
  const std::size_t row = warp_row();
  if (row >= o.x.rows) return;
  const bool fours = in_fours(o.x, o.unit) && (o.again.data == nullptr || in_fours(o.again));
  fours ? normalize<4>(o, row) : normalize<1>(o, row);
}

template <int N>
__device__ void normalize_backward(const NormalizeBackward& o, std::size_t row) {
  const float* u = row_of(o.unit, row);
  const float* du = row_of(o.dunit, row);
  float* out = row_of(o.dx, row);
  const float along = dot_of<N>(u, du, o.unit.cols);
  const float length = *row_of(o.lengths, row);
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
  if (row >= o.unit.rows) return;
  in_fours(o.unit, o.dunit, o.dx) ? normalize_backward<4>(o, row) : normalize_backward<1>(o, row);
}

/// Blocks, if each warp works on a row.
unsigned warp_blocks(std::size_t rows) {
  return blocks(rows, kThreads / kWarp);
}

void dots(cudaStream_t stream, ConstPanel x, ConstPanel y, bool root, Panel to) {
  const auto kernel = in_fours(x, y) ? dots_kernel<4> : dots_kernel<1>;
  launch(kernel, warp_blocks(x.rows), kThreads, stream, "to multiply rows", x, y, root, to);
}

constexpr unsigned kTile = 32, kTileRows = 8;  // of a block that mirrors a matrix
constexpr unsigned kCentring = 256;            // threads of one that centres rows

/// A block scales a tile of the lower triangle and writes it mirrored too.
__global__ void mirror_kernel(Rows64 square, double scale) {
  __shared__ double tile[kTile][kTile + 1];
  const std::size_t left = blockIdx.x * std::size_t{kTile}, top = blockIdx.y * std::size_t{kTile};
  if (left > top) return;
  for (unsigned i = threadIdx.y; i < kTile; i += kTileRows) {
    const std::size_t row = top + i, column = left + threadIdx.x;
    if (column > row || row >= square.rows) continue;
    double& own = square.data[row * square.stride + column];
    tile[i][threadIdx.x] = own *= scale;
  }
  __syncthreads();
  for (unsigned i = threadIdx.y; i < kTile; i += kTileRows) {
    const std::size_t row = left + i, column = top + threadIdx.x;
    if (column > row && column < square.cols) square.data[row * square.stride + column] = tile[threadIdx.x][i];
  }
}

template <class T>
__global__ void centre_kernel(const T* from, const double* mean, Rows64 to) {
  for (std::size_t r = blockIdx.x; r < to.rows; r += gridDim.x) {
    for (std::size_t c = threadIdx.x; c < to.cols; c += kCentring) {
      to.data[r * to.stride + c] = from[r * to.cols + c] - mean[c];
    }
  }
}

template <class T>
void launch_centre(const T* from, const double* mean, Rows64 to, cudaStream_t stream) {
  constexpr std::size_t kMostBlocks = 1 << 16;
  if (to.rows == 0) return;
  launch(centre_kernel<T>, static_cast<unsigned>(std::min(to.rows, kMostBlocks)), kCentring, stream, "to centre rows",
         from, mean, to);
}

}  // namespace

void run(cudaStream_t stream, std::span<const Fill> all) {
  launch(fill_kernel, grid_of(all, [](const Fill& o) { return o.x.rows; }), kThreads, stream, "to fill a matrix",
         many_of(all));
}

void narrow(cudaStream_t stream, ConstPanel x, __nv_bfloat16* to, std::size_t stride) {
  constexpr unsigned kMost = 16;  // blocks that share a long row
  const unsigned shares = std::min(blocks(x.cols / 4 + 1, kThreads), kMost);
  const auto kernel = in_fours(x) && stride % 4 == 0 ? narrow_kernel<4> : narrow_kernel<1>;
  launch(kernel, dim3(blocks(x.rows), shares), kThreads, stream, "to narrow a matrix", x, to, stride);
}

void turn(cudaStream_t stream, ConstPanel from, Panel to) {
  launch(turn_kernel, dim3(blocks(from.rows, kWarp), blocks(from.cols, kWarp)), kThreads, stream, "to turn a matrix",
         from, to);
}

void run(cudaStream_t stream, std::span<const Gather> all) {
  launch(gather_kernel, grid_of(all, [](const Gather& o) { return o.to.rows; }), kThreads, stream, "to gather rows",
         many_of(all));
}

void row_lengths(cudaStream_t stream, ConstPanel x, Panel lengths) {
  dots(stream, x, x, true, lengths);
}

void row_dots(cudaStream_t stream, ConstPanel x, ConstPanel y, Panel to) {
  dots(stream, x, y, false, to);
}

void run(cudaStream_t stream, std::span<const Normalize> all) {
  launch(normalize_kernel, grid_of(all, [](const Normalize& o) { return warp_blocks(o.x.rows); }), kThreads, stream,
         "to normalise rows", many_of(all));
}

void run(cudaStream_t stream, std::span<const NormalizeBackward> all) {
  launch(normalize_backward_kernel, grid_of(all, [](const NormalizeBackward& o) { return warp_blocks(o.unit.rows); }),
         kThreads, stream, "in the gradient of normalised rows", many_of(all));
}

void mirror(Rows64 square, double scale, cudaStream_t stream) {
  const auto tiles = static_cast<unsigned>((square.rows + kTile - 1) / kTile);
  launch(mirror_kernel, dim3(tiles, tiles), dim3(kTile, kTileRows), stream, "to mirror a matrix", square, scale);
}

void centre(const float* from, const double* mean, Rows64 to, cudaStream_t stream) {
  launch_centre(from, mean, to, stream);
}
void centre(const double* from, const double* mean, Rows64 to, cudaStream_t stream) {
  launch_centre(from, mean, to, stream);
}

}  // namespace kedge::cuda
