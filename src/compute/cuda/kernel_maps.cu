// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/kernel_maps.h"

#include "compute/cuda/check.h"
#include "compute/cuda/reduce.cuh"
#include "compute/cuda/vector.cuh"

#include <algorithm>

namespace kedge::cuda {
namespace {

constexpr unsigned kThreads = 256;

/// Blocks of threads for so many values, which walk over those that are left.
unsigned blocks_for(std::size_t values) {
  constexpr std::size_t kMost = 132 * 16;  // all that a large GPU runs at once, and some to spare
  return static_cast<unsigned>(std::clamp<std::size_t>((values + kThreads - 1) / kThreads, 1, kMost));
}

/// A block to each row.
unsigned blocks(std::size_t rows) {
  return static_cast<unsigned>(rows);
}

__global__ void center_kernel(Panel x, const float* mean) {
  float* row = x.data + blockIdx.x * x.stride;
  for (std::size_t c = threadIdx.x; c < x.cols; c += kThreads) row[c] -= mean[c];
}

__global__ void unit_kernel(Panel x) {
  float* row = x.data + blockIdx.x * x.stride;
  double sum = 0;
  for (std::size_t c = threadIdx.x; c < x.cols; c += kThreads) sum += static_cast<double>(row[c]) * row[c];
  const double length = sqrt(block_sum(sum));
  if (!(length > 0)) return;
  for (std::size_t c = threadIdx.x; c < x.cols; c += kThreads) row[c] = static_cast<float>(row[c] / length);
}

/// See cpu/exponentials.cpp, which does the same.
__device__ float without_line(float x) {
  constexpr float kMost = 80, kRound = 0x1.8p23F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  x = x > kMost ? kMost : x;
  x = x < -kMost ? -kMost : x;
  const float shifted = x * 1.44269504F + kRound;
  const float whole = shifted - kRound;
  const float rest = (x - whole * kLn2High) - whole * kLn2Low;
  const float square = rest * rest;
  const float high =
      (1.9875691500e-4F * rest + 1.3981999507e-3F) * square + (8.3334519073e-3F * rest + 4.1665795894e-2F);
  const float low = 1.6666665459e-1F * rest + 5.0000001201e-1F;
  const float curve = (high * square + low) * square;
  const float scale = __uint_as_float((__float_as_uint(shifted) + 127U) << 23);
  const float more = scale - 1;
  return (scale * curve + more * rest) + ((more - whole * kLn2High) - whole * kLn2Low);
}

__global__ void without_line_kernel(float* u, std::size_t count) {
  const std::size_t first = blockIdx.x * std::size_t{kThreads} + threadIdx.x;
  const std::size_t step = gridDim.x * std::size_t{kThreads};
  for (std::size_t i = first; i < count / 4; i += step) {
    Floats<4> four = load<4>(u, i);
    for (float& value : four.values) value = without_line(value);
    store<4>(u, i, four);
  }
  const std::size_t last = count / 4 * 4 + first;
  if (last < count) u[last] = without_line(u[last]);
}

__global__ void widen_kernel(const float* from, double* to, std::size_t count) {
  const std::size_t step = gridDim.x * std::size_t{kThreads};
  for (std::size_t i = blockIdx.x * std::size_t{kThreads} + threadIdx.x; i < count; i += step) to[i] = from[i];
}

__global__ void kernel_kernel(double* matrix, std::size_t dim, double width, double ridge) {
  const std::size_t c = blockIdx.x;
  double* column = matrix + c * dim;
  for (std::size_t r = c + threadIdx.x; r < dim; r += kThreads) {
    column[r] = exp(width * (column[r] - 1)) + (r == c ? ridge : 0);
  }
}

__global__ void ones_kernel(double* columns, std::size_t rows, const std::size_t* positions, std::size_t count,
                            std::size_t first) {
  const std::size_t c = blockIdx.x * std::size_t{kThreads} + threadIdx.x;
  if (c < count) columns[c * rows + (positions[c] - first)] = 1;
}

__global__ void squares_kernel(const double* columns, std::size_t rows, double* squares) {
  const double* column = columns + blockIdx.x * rows;
  double sum = 0;
  for (std::size_t r = threadIdx.x; r < rows; r += kThreads) sum += column[r] * column[r];
  sum = block_sum(sum);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

}  // namespace

void center_rows(cudaStream_t stream, Panel x, const float* mean) {
  center_kernel<<<blocks(x.rows), kThreads, 0, stream>>>(x, mean);
  check_launch("to centre rows");
}

void unit_rows(cudaStream_t stream, Panel x) {
  unit_kernel<<<blocks(x.rows), kThreads, 0, stream>>>(x);
  check_launch("to normalise rows");
}

void exp_without_line(cudaStream_t stream, float* u, std::size_t count) {
  without_line_kernel<<<blocks_for(count / 4), kThreads, 0, stream>>>(u, count);
  check_launch("to take exponentials");
}

void widen(cudaStream_t stream, const float* from, double* to, std::size_t count) {
  widen_kernel<<<blocks_for(count), kThreads, 0, stream>>>(from, to, count);
  check_launch("to widen rows");
}

void kernel_of_cosines(cudaStream_t stream, double* matrix, std::size_t dim, double width, double ridge) {
  kernel_kernel<<<blocks(dim), kThreads, 0, stream>>>(matrix, dim, width, ridge);
  check_launch("to make a kernel");
}

void put_ones(cudaStream_t stream, double* columns, std::size_t rows, const std::size_t* positions, std::size_t count,
              std::size_t first) {
  ones_kernel<<<blocks((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(columns, rows, positions, count,
                                                                                  first);
  check_launch("to begin columns");
}

void squared_columns(cudaStream_t stream, const double* columns, std::size_t rows, std::size_t count, double* squares) {
  squares_kernel<<<blocks(count), kThreads, 0, stream>>>(columns, rows, squares);
  check_launch("to measure columns");
}

}  // namespace kedge::cuda
