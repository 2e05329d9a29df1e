// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/dense.h"

#include "compute/cuda/check.h"

namespace kedge::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kTile = 32, kTileRows = 8;

/// A tile of the upper triangle to a block, which writes it to where it is mirrored too.
__global__ void mirror_kernel(Block square, double scale) {
  __shared__ double tile[kTile][kTile + 1];
  const std::size_t top = blockIdx.x * std::size_t{kTile}, left = blockIdx.y * std::size_t{kTile};
  if (top > left) return;
  for (unsigned i = threadIdx.y; i < kTile; i += kTileRows) {
    const std::size_t row = top + threadIdx.x, column = left + i;
    if (row > column || column >= square.cols) continue;
    double& own = square.data[column * square.stride + row];
    tile[i][threadIdx.x] = own *= scale;
  }
  __syncthreads();
  for (unsigned i = threadIdx.y; i < kTile; i += kTileRows) {
    const std::size_t row = left + threadIdx.x, column = top + i;
    if (row > column && row < square.rows) square.data[column * square.stride + row] = tile[threadIdx.x][i];
  }
}

template <class T>
__global__ void centre_kernel(const T* from, const double* mean, Block to) {
  for (std::size_t r = blockIdx.x; r < to.cols; r += gridDim.x) {
    for (std::size_t c = threadIdx.x; c < to.rows; c += kThreads) {
      to.data[r * to.stride + c] = from[r * to.rows + c] - mean[c];
    }
  }
}

template <class T>
void launch_centre(const T* from, const double* mean, const Block& to, cudaStream_t stream) {
  constexpr std::size_t kMostBlocks = 1 << 16;
  if (to.cols == 0) return;
  const auto blocks = static_cast<unsigned>(to.cols < kMostBlocks ? to.cols : kMostBlocks);
  centre_kernel<<<blocks, kThreads, 0, stream>>>(from, mean, to);
  check_launch("centre");
}

}  // namespace

void mirror(const Block& square, double scale, cudaStream_t stream) {
  const auto tiles = static_cast<unsigned>((square.rows + kTile - 1) / kTile);
  mirror_kernel<<<dim3(tiles, tiles), dim3(kTile, kTileRows), 0, stream>>>(square, scale);
  check_launch("mirror");
}

void centre(const float* from, const double* mean, const Block& to, cudaStream_t stream) {
  launch_centre(from, mean, to, stream);
}
void centre(const double* from, const double* mean, const Block& to, cudaStream_t stream) {
  launch_centre(from, mean, to, stream);
}

}  // namespace kedge::cuda
