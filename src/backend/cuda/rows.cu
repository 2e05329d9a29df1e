// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/check.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"

#include <algorithm>

namespace kedge::cuda {
namespace {

constexpr unsigned kThreads = 128;  // of a block, which works on one row

unsigned blocks(std::size_t rows) {
  return static_cast<unsigned>(rows);
}

__global__ void fill_kernel(Panel x, float value) {
  float* row = x.data + blockIdx.x * x.stride;
  for (std::size_t c = threadIdx.x; c < x.cols; c += kThreads) row[c] = value;
}

struct alignas(8) FourNarrow {
  __nv_bfloat162 low, high;
};

__global__ void narrow_fours_kernel(ConstPanel x, __nv_bfloat16* to, std::size_t stride) {
  const float* row = x.data + blockIdx.x * x.stride;
  auto* out = reinterpret_cast<FourNarrow*>(to + blockIdx.x * stride);
  for (std::size_t c = blockIdx.y * kThreads + threadIdx.x; c < x.cols / 4; c += gridDim.y * kThreads) {
    const Floats<4> wide = load<4>(row, c);
    out[c] = {__floats2bfloat162_rn(wide.values[0], wide.values[1]),
              __floats2bfloat162_rn(wide.values[2], wide.values[3])};
  }
}

__global__ void narrow_kernel(ConstPanel x, __nv_bfloat16* to, std::size_t stride) {
  for (std::size_t c = threadIdx.x; c < x.cols; c += kThreads) {
    to[blockIdx.x * stride + c] = __float2bfloat16_rn(x.data[blockIdx.x * x.stride + c]);
  }
}

template <int N>
__global__ void gather_kernel(ConstPanel from, Ids ids, Panel to) {
  const std::size_t batch = ids.turn == nullptr ? 0 : *ids.turn % ids.batches;
  const float* source = from.data + ids.data[batch * ids.count + blockIdx.x] * from.stride;
  float* row = to.data + blockIdx.x * to.stride;
  for (std::size_t c = threadIdx.x; c < to.cols / N; c += kThreads) store<N>(row, c, load<N>(source, c));
}

__device__ float length_of(const float* row, std::size_t cols) {
  float sum = 0;
  for (std::size_t c = threadIdx.x; c < cols; c += kThreads) sum += row[c] * row[c];
  return sqrtf(block_sum(sum));
}

__global__ void lengths_kernel(ConstPanel x, Panel lengths) {
  const float length = length_of(x.data + blockIdx.x * x.stride, x.cols);
  if (threadIdx.x == 0) lengths.data[blockIdx.x * lengths.stride] = length;
}

__global__ void normalize_kernel(ConstPanel x, Panel unit, Panel lengths) {
  const float* row = x.data + blockIdx.x * x.stride;
  float* out = unit.data + blockIdx.x * unit.stride;
  const float length = length_of(row, x.cols);
  const float inverse = length > 0 ? 1 / length : 0;
  for (std::size_t c = threadIdx.x; c < x.cols; c += kThreads) out[c] = inverse * row[c];
  if (threadIdx.x == 0) lengths.data[blockIdx.x * lengths.stride] = length;
}

__global__ void normalize_backward_kernel(ConstPanel unit, ConstPanel lengths, ConstPanel dunit, float beta, Panel dx) {
  const float* u = unit.data + blockIdx.x * unit.stride;
  const float* du = dunit.data + blockIdx.x * dunit.stride;
  float* out = dx.data + blockIdx.x * dx.stride;
  float dot = 0;
  for (std::size_t c = threadIdx.x; c < unit.cols; c += kThreads) dot += u[c] * du[c];
  const float along = block_sum(dot);
  const float length = lengths.data[blockIdx.x * lengths.stride];
  const float inverse = length > 0 ? 1 / length : 0;
  for (std::size_t c = threadIdx.x; c < unit.cols; c += kThreads) {
    const float before = beta == 0 ? 0 : beta * out[c];
    out[c] = before + inverse * (du[c] - along * u[c]);
  }
}

}  // namespace

void fill(cudaStream_t stream, Panel x, float value) {
  fill_kernel<<<blocks(x.rows), kThreads, 0, stream>>>(x, value);
  check_launch("to fill a matrix");
}

void narrow(cudaStream_t stream, ConstPanel x, __nv_bfloat16* to, std::size_t stride) {
  if (in_fours(x) && stride % 4 == 0) {
    constexpr unsigned kMost = 16;  // blocks that share a long row
    const auto shares = static_cast<unsigned>(std::min<std::size_t>((x.cols / 4 + kThreads - 1) / kThreads, kMost));
    narrow_fours_kernel<<<dim3(blocks(x.rows), shares), kThreads, 0, stream>>>(x, to, stride);
  } else {
    narrow_kernel<<<blocks(x.rows), kThreads, 0, stream>>>(x, to, stride);
  }
  check_launch("to narrow a matrix");
}

void gather_rows(cudaStream_t stream, ConstPanel from, Ids ids, Panel to) {
  if (in_fours(from) && in_fours(to)) {
    gather_kernel<4><<<blocks(to.rows), kThreads, 0, stream>>>(from, ids, to);
  } else {
    gather_kernel<1><<<blocks(to.rows), kThreads, 0, stream>>>(from, ids, to);
  }
  check_launch("to gather rows");
}

void row_lengths(cudaStream_t stream, ConstPanel x, Panel lengths) {
  lengths_kernel<<<blocks(x.rows), kThreads, 0, stream>>>(x, lengths);
  check_launch("to measure rows");
}

void normalize_rows(cudaStream_t stream, ConstPanel x, Panel unit, Panel lengths) {
  normalize_kernel<<<blocks(x.rows), kThreads, 0, stream>>>(x, unit, lengths);
  check_launch("to normalise rows");
}

void normalize_rows_backward(cudaStream_t stream, ConstPanel unit, ConstPanel lengths, ConstPanel dunit, float beta,
                             Panel dx) {
  normalize_backward_kernel<<<blocks(unit.rows), kThreads, 0, stream>>>(unit, lengths, dunit, beta, dx);
  check_launch("in the gradient of normalised rows");
}

}  // namespace kedge::cuda
