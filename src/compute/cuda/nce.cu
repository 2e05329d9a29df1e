// SPDX-License-Identifier: Apache-2.0
// Symmetric InfoNCE in two launches: one adds up each tile's rows and columns, the other makes the gradient, tile by
// tile. Both read each cosine once: computing its exponential again is faster than fetching it.
#include "compute/cuda/device.cuh"

namespace kedge::cuda {
namespace {

constexpr unsigned kTile = kNceTile;
constexpr unsigned kFours = kTile / 4;          // threads that share a row of a tile
constexpr unsigned kThreads = 256;              // of a block, which works on a tile
constexpr unsigned kApart = kThreads / kFours;  // rows between those of a thread
constexpr unsigned kRows = kTile / kApart;      // of a thread
constexpr unsigned kPerSum = kThreads / kTile;  // threads that add up a row's or a column's parts
static_assert(kThreads % kTile == 0 && kWarp % kFours == 0 && kFours % kPerSum == 0);

__host__ __device__ std::size_t tiles_of(std::size_t n) {
  return (n + kTile - 1) / kTile;
}

/// An operation's sums: of the rows and columns within each tile, of the loss in each tile on the diagonal, and how
/// many of the latter are done.
struct Sums {
  float *rows, *columns;
  double* losses;
  unsigned* done;

  __device__ Sums(const Many<SymmetricNce>& many, double* scratch)
      : rows(reinterpret_cast<float*>(own_scratch(many, scratch))) {
    const std::size_t n = many.mine().cosines.rows;
    columns = rows + tiles_of(n) * n;
    losses = reinterpret_cast<double*>(rows) + tiles_of(n) * n;
    done = reinterpret_cast<unsigned*>(losses + tiles_of(n));
  }
};

__device__ Floats<4> load_four(const float* row, std::size_t first, std::size_t n, bool fours) {
  Floats<4> four{};
  if (fours) {
    if (first < n) four = load<4>(row, first / 4);
  } else {
    for (unsigned i = 0; i < 4; ++i) {
      if (first + i < n) four.values[i] = row[first + i];
    }
  }
  return four;
}

__device__ void store_four(float* row, std::size_t first, std::size_t n, bool fours, const Floats<4>& four) {
  if (fours) {
    if (first < n) store<4>(row, first / 4, four);
  } else {
    for (unsigned i = 0; i < 4; ++i) {
      if (first + i < n) row[first + i] = four.values[i];
    }
  }
}

/// A thread's part of a tile: kRows rows of four columns, all read before any is used.
struct Part {
  Floats<4> values[kRows];

  __device__ Part(const Panel& cosines, std::size_t first_row, std::size_t first_column, bool fours) {
#pragma unroll
    for (unsigned k = 0; k < kRows; ++k) {
      const std::size_t row = first_row + k * kApart;
      values[k] = row < cosines.rows ? load_four(row_of(cosines, row), first_column, cosines.rows, fours) : Floats<4>{};
    }
  }
};

/// What a cosine weighs in its row and its column. Cosines are at most 1 but for rounding, so one bound serves both.
__device__ float weight_of(float cosine, float inverse_tau) {
  return expf((cosine - 1) * inverse_tau);
}

__global__ void __launch_bounds__(kThreads)
    nce_sums_kernel(const __grid_constant__ Many<SymmetricNce> many, double* scratch) {
  __shared__ float parts[kApart][kTile];
  const Panel cosines = many.mine().cosines;
  const std::size_t n = cosines.rows, tiles = tiles_of(n);
  if (blockIdx.x >= tiles * tiles) return;
  const std::size_t tile_row = blockIdx.x / tiles, tile_column = blockIdx.x % tiles;
  const unsigned four = threadIdx.x % kFours, line = threadIdx.x / kFours;
  const std::size_t first_row = tile_row * kTile + line, first_column = tile_column * kTile + 4 * four;
  const float inverse_tau = 1 / many.mine().tau;
  const Sums to(many, scratch);
  if (blockIdx.x == 0 && threadIdx.x == 0) *to.done = 0;
  const Part part(cosines, first_row, first_column, in_fours(cosines));
  float columns[4] = {};
#pragma unroll
  for (unsigned k = 0; k < kRows; ++k) {
    const std::size_t row = first_row + k * kApart;
    float sum = 0;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const std::size_t column = first_column + i;
      if (row >= n || column >= n) continue;
      const float weight = weight_of(part.values[k].values[i], inverse_tau);
      sum += weight;
      columns[i] += weight;
    }
    for (unsigned offset = kFours / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
    if (four == 0 && row < n) to.rows[tile_column * n + row] = sum;
  }
  for (unsigned i = 0; i < 4; ++i) parts[line][4 * four + i] = columns[i];
  __syncthreads();
  const std::size_t column = tile_column * kTile + threadIdx.x;
  if (threadIdx.x >= kTile || column >= n) return;
  float sum = 0;
#pragma unroll
  for (unsigned i = 0; i < kApart; ++i) sum += parts[i][threadIdx.x];
  to.columns[tile_row * n + column] = sum;
}

/// Adds up every `step`th tile's part of a sum, from tile `which` on.
__device__ float add_parts(const float* parts, std::size_t n, std::size_t which, std::size_t step, std::size_t at) {
  float sum = 0;
#pragma unroll 4
  for (std::size_t tile = which; tile < tiles_of(n); tile += step) sum += parts[tile * n + at];
  return sum;
}

/// to = 1 / the sums of kTile rows or columns from `first` on; the block has to synchronise before it reads them.
__device__ void invert_sums(const float* parts, std::size_t n, std::size_t first, float* to) {
  const unsigned own = threadIdx.x / kPerSum, which = threadIdx.x % kPerSum;
  float sum = first + own < n ? add_parts(parts, n, which, kPerSum, first + own) : 0;
  for (unsigned offset = kPerSum / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
  if (which == 0) to[own] = first + own < n ? 1 / sum : 0;
}

/// Adds the loss of a tile on the diagonal, from 1 / the sums of its rows and columns and its cosines on the diagonal.
/// The tile that comes last adds up all of them, in a fixed order.
__device__ void add_loss(const SymmetricNce& o, const Sums& sums, std::size_t tile, const float* of_row,
                         const float* of_column, const float* right) {
  const std::size_t n = o.cosines.rows, tiles = tiles_of(n);
  const unsigned own = threadIdx.x % kTile;
  double total = 0;
  if (tile * kTile + own < n) {
    if (threadIdx.x < kTile) {
      total = -log(static_cast<double>(of_row[own]));
    } else if (threadIdx.x < 2 * kTile) {
      total = -log(static_cast<double>(of_column[own]));
    } else if (threadIdx.x < 3 * kTile) {
      total = -2 * (static_cast<double>(right[own]) - 1) / o.tau;
    }
  }
  total = block_sum(total);
  if (threadIdx.x != 0) return;
  sums.losses[tile] = total;
  __threadfence();
  if (atomicAdd(sums.done, 1U) + 1 < tiles) return;
  __threadfence();
  double all = 0;
  for (std::size_t i = 0; i < tiles; ++i) all += __ldcg(sums.losses + i);
  *o.loss.data += static_cast<float>(o.weighted.share * all / (2 * static_cast<double>(n)));
}

/// Tiles on the diagonal come first, because they have more to do: the loss.
__device__ uint2 tile_of(unsigned block, unsigned tiles) {
  if (block < tiles) return {block, block};
  const unsigned row = (block - tiles) / (tiles - 1), column = (block - tiles) % (tiles - 1);
  return {row, column < row ? column : column + 1};
}

__global__ void __launch_bounds__(kThreads)
    nce_gradient_kernel(const __grid_constant__ Many<SymmetricNce> many, double* scratch) {
  __shared__ float tile[kTile][kTile + 1];
  __shared__ float of_row[kTile], of_column[kTile], right[kTile];
  const SymmetricNce& o = many.mine();
  const std::size_t n = o.cosines.rows, tiles = tiles_of(n);
  const Sums sums(many, scratch);
  if (blockIdx.x >= tiles * tiles) return;
  const uint2 own = tile_of(blockIdx.x, static_cast<unsigned>(tiles));
  const std::size_t top = own.x * std::size_t{kTile}, left = own.y * std::size_t{kTile};
  const unsigned four = 4 * (threadIdx.x % kFours), line = threadIdx.x / kFours;
  const float inverse_tau = 1 / o.tau;
  const float step = o.weighted.share * o.weighted.weight * inverse_tau / (2 * static_cast<float>(n));
  const bool fours = in_fours(o.cosines), turned_fours = in_fours(o.turned);
  Part part(o.cosines, top + line, left + four, fours);
  invert_sums(sums.rows, n, top, of_row);
  invert_sums(sums.columns, n, left, of_column);
  __syncthreads();
#pragma unroll
  for (unsigned k = 0; k < kRows; ++k) {
    const unsigned r = line + k * kApart;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      float& value = part.values[k].values[i];
      const bool is_right = top + r == left + four + i;
      if (is_right) right[r] = value;
      value = step * weight_of(value, inverse_tau) * (of_row[r] + of_column[four + i]) - (is_right ? 2 * step : 0);
      tile[r][four + i] = value;
    }
    if (top + r < n) store_four(row_of(o.cosines, top + r), left + four, n, fours, part.values[k]);
  }
  __syncthreads();
#pragma unroll
  for (unsigned k = 0; k < kRows; ++k) {
    const unsigned r = line + k * kApart;
    if (left + r >= n) continue;
    const Floats<4> turned{{tile[four][r], tile[four + 1][r], tile[four + 2][r], tile[four + 3][r]}};
    store_four(row_of(o.turned, left + r), top + four, n, turned_fours, turned);
  }
  if (top == left) add_loss(o, sums, own.x, of_row, of_column, right);
}

}  // namespace

void run(cudaStream_t stream, std::span<const SymmetricNce> all, double* scratch) {
  const auto many = many_of(all);
  const dim3 grid =
      grid_of(all, [](const SymmetricNce& o) { return tiles_of(o.cosines.rows) * tiles_of(o.cosines.rows); });
  launch(nce_sums_kernel, grid, kThreads, stream, "to sum cosines", many, scratch);
  launch(nce_gradient_kernel, grid, kThreads, stream, "in the gradient of cosines", many, scratch);
}

}  // namespace kedge::cuda
