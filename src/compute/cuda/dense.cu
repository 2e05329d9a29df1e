// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/dense.h"

#include <algorithm>

namespace kedge::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kTile = 32, kTileRows = 8;

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
    for (std::size_t c = threadIdx.x; c < to.cols; c += kThreads) {
      to.data[r * to.stride + c] = from[r * to.cols + c] - mean[c];
    }
  }
}

template <class T>
void launch_centre(const T* from, const double* mean, Rows64 to, cudaStream_t stream) {
  constexpr std::size_t kMostBlocks = 1 << 16;
  if (to.rows == 0) return;
  centre_kernel<<<static_cast<unsigned>(std::min(to.rows, kMostBlocks)), kThreads, 0, stream>>>(from, mean, to);
  check_launch("to centre rows");
}

}  // namespace

void mirror(Rows64 square, double scale, cudaStream_t stream) {
  const auto tiles = static_cast<unsigned>((square.rows + kTile - 1) / kTile);
  mirror_kernel<<<dim3(tiles, tiles), dim3(kTile, kTileRows), 0, stream>>>(square, scale);
  check_launch("to mirror a matrix");
}

void centre(const float* from, const double* mean, Rows64 to, cudaStream_t stream) {
  launch_centre(from, mean, to, stream);
}
void centre(const double* from, const double* mean, Rows64 to, cudaStream_t stream) {
  launch_centre(from, mean, to, stream);
}

}  // namespace kedge::cuda
