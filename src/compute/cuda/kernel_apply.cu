// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/device.cuh"

#include <algorithm>

namespace kedge::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kMostBlocks = 132 * 16;  // all that a large GPU runs at once, and some to spare

// Large enough for products that keep all of a GPU busy: the best of those that kedge_gpu_kernel_bench was run with.
constexpr std::size_t kMostRows = 8192, kMostTile = 10240;

/// Tiles of about the same size, which begin where products are fastest.
std::size_t tile_of(std::size_t row_count) {
  constexpr std::size_t kStep = 64;
  const std::size_t tiles = std::max<std::size_t>(1, (row_count + kMostTile - 1) / kMostTile);
  return ((row_count + tiles - 1) / tiles + kStep - 1) / kStep * kStep;
}

/// A block to each row.
__global__ void center_kernel(Panel x, const float* mean) {
  for (std::size_t c = threadIdx.x; c < x.cols; c += kThreads) row_of(x, blockIdx.x)[c] -= mean[c];
}

/// Length 1, unless it is zero.
__global__ void unit_kernel(Panel x) {
  float* row = row_of(x, blockIdx.x);
  double sum = 0;
  for (std::size_t c = threadIdx.x; c < x.cols; c += kThreads) sum += static_cast<double>(row[c]) * row[c];
  const double length = sqrt(block_sum(sum));
  if (!(length > 0)) return;
  for (std::size_t c = threadIdx.x; c < x.cols; c += kThreads) row[c] = static_cast<float>(row[c] / length);
}

/// e^x - 1 - x, as in cpu/exponentials.cpp.
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

}  // namespace

DeviceKernel::DeviceKernel(const KernelFunction& function, Precision asked)
    : input_dim(function.input_dim()),
      output_dim(function.output_dim()),
      row_count(function.rows.rows),
      width(function.width),
      projected(function.projection.rows > 0),
      precision(asked) {
  const Lane lane;
  const auto row = [](std::span<const float> values) {
    return MatrixView<const float>{values.data(), 1, values.size(), values.size()};
  };
  projection = lane.copy_of(function.projection);
  rows = lane.copy_of(function.rows);
  coefficients = lane.copy_of(function.coefficients);
  weight = lane.copy_of(function.weight);
  bias = lane.copy_of(row(function.bias));
  mean = lane.copy_of(row(function.mean));
  lane.wait();
}

KernelApply::KernelApply(const DeviceKernel& function, std::size_t most_rows)
    : function_(function),
      tile_(tile_of(function.row_count)),
      rows_(std::clamp<std::size_t>(most_rows, 1, kMostRows)),
      unit_(function.projected ? rows_ * function.input_dim : 0),
      curves_(rows_ * tile_) {}

std::size_t KernelApply::values(const DeviceKernel& function, std::size_t most_rows) {
  return std::min(most_rows, kMostRows) * (tile_of(function.row_count) + (function.projected ? function.input_dim : 0));
}

void KernelApply::apply(const Lane& lane, Panel x, Panel y) {
  for (std::size_t first = 0; first < x.rows; first += rows_) {
    const std::size_t count = std::min(rows_, x.rows - first);
    apply_some(lane, x.middle_rows(first, count), y.middle_rows(first, count));
  }
}

void KernelApply::apply_some(const Lane& lane, Panel x, Panel y) {
  const DeviceKernel& f = function_;
  const std::size_t in = f.input_dim, out = f.output_dim;
  launch(center_kernel, blocks(x.rows), kThreads, lane.stream(), "to centre rows", x, f.mean.data());
  Panel unit = x;
  if (f.projected) {
    unit = {unit_.data(), x.rows, in, in};
    multiply(lane, {CUBLAS_OP_N, CUBLAS_OP_N, in, 1, x, {f.projection.data(), in, in, in}, 0, unit}, f.precision);
  }
  launch(unit_kernel, blocks(unit.rows), kThreads, lane.stream(), "to normalise rows", unit);
  affine(lane, unit, {f.weight.data(), out, in, in}, {f.bias.data(), 1, out, out}, f.precision, y);
  const ConstPanel rows{f.rows.data(), f.row_count, in, in}, coefficients{f.coefficients.data(), f.row_count, out, out};
  for (std::size_t first = 0; first < f.row_count; first += tile_) {
    const std::size_t count = std::min(tile_, f.row_count - first);
    const Panel curves{curves_.data(), x.rows, count, count};
    multiply(lane, {CUBLAS_OP_N, CUBLAS_OP_T, in, f.width, unit, rows.middle_rows(first, count), 0, curves},
             f.precision);
    const std::size_t values = x.rows * count;
    launch(without_line_kernel, std::clamp(blocks(values / 4, kThreads), 1U, kMostBlocks), kThreads, lane.stream(),
           "to take exponentials", curves.data, values);
    multiply(lane, {CUBLAS_OP_N, CUBLAS_OP_N, count, 1, curves, coefficients.middle_rows(first, count), 1, y},
             f.precision);
  }
}

}  // namespace kedge::cuda
