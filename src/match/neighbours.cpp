// SPDX-License-Identifier: Apache-2.0
#include "match/neighbours.h"

#include "base/arithmetic.h"
#include "base/eigen.h"
#include "base/parallel.h"
#include "compute/products.h"

#include <kedge/device.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <numeric>
#include <tuple>

namespace kedge {
namespace {

constexpr std::size_t kRows = 256;     // of a block of products, so that it stays in the cache while it is looked at
constexpr std::size_t kColumns = 64;   // that are transposed at once
constexpr std::size_t kStream = 2048;  // rows of a block of the second side
constexpr std::size_t kOuter = 16384;  // and of the first, for which the second is read once

void transpose(MatrixView<const float> from, MatrixView<float> to) {
  constexpr std::size_t kTile = 16;
  for (std::size_t r = 0; r < from.rows; r += kTile) {
    const std::size_t end = std::min(from.rows, r + kTile);
    for (std::size_t c = 0; c < from.cols; ++c) {
      for (std::size_t i = r; i < end; ++i) to.data[c * to.stride + i] = from.data[i * from.stride + c];
    }
  }
}

KEDGE_EVERY_PROCESSOR void keep_larger(float* lanes, const float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) lanes[i] = lanes[i] < values[i] ? values[i] : lanes[i];
}

/// Whether any of `count` values is `least` or more.
KEDGE_EVERY_PROCESSOR bool any_reaches(const float* values, std::size_t count, float least) {
  int reach = 0;
  for (std::size_t i = 0; i < count; ++i) reach += values[i] >= least ? 1 : 0;
  return reach != 0;
}

void subtract_half(std::span<const float> row, std::span<const float> radii, std::span<float> to) {
  as_eigen(to) = as_eigen(row) - 0.5F * as_eigen(radii);
}

}  // namespace

std::size_t csls_neighbours(std::size_t rows) {
  return std::clamp<std::size_t>(rows / 4, 1, kCslsNeighbours);
}

std::span<const std::size_t> TopValues::find(std::span<const float> row, std::size_t count) {
  // The count-th largest of the maxima of many lanes is at most the count-th largest value: few values reach it.
  const std::size_t lanes = std::bit_ceil(std::max<std::size_t>(4 * count, 32));
  float least = -std::numeric_limits<float>::infinity();
  if (row.size() >= 2 * lanes) {
    lanes_.assign(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(lanes));
    for (std::size_t first = lanes; first + lanes <= row.size(); first += lanes) {
      keep_larger(lanes_.data(), row.data() + first, lanes);
    }
    const auto cut = lanes_.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    std::ranges::nth_element(lanes_, cut, std::greater{});
    least = *cut;
  }
  places_.clear();
  constexpr std::size_t kChunk = 64;
  for (std::size_t first = 0; first < row.size(); first += kChunk) {
    const auto chunk = row.subspan(first, std::min(kChunk, row.size() - first));
    if (!any_reaches(chunk.data(), chunk.size(), least)) continue;
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      if (chunk[i] >= least) places_.push_back(first + i);
    }
  }
  if (places_.size() > count) {
    std::ranges::nth_element(
        places_, places_.begin() + static_cast<std::ptrdiff_t>(count),
        [&](std::size_t a, std::size_t b) { return std::tuple(-row[a], a) < std::tuple(-row[b], b); });
    places_.resize(count);
  }
  return places_;
}

float TopValues::mean(std::span<const float> row, std::size_t count) {
  double sum = 0;
  for (const std::size_t place : find(row, count)) sum += row[place];
  return static_cast<float>(sum / static_cast<double>(count));
}

Neighbours find_neighbours(MatrixView<const float> first, MatrixView<const float> second, std::size_t count,
                           std::vector<float>& room) {
  room.resize(std::max(room.size(), checked_mul(first.rows, second.rows)));
  const MatrixView<float> products{room.data(), first.rows, second.rows, second.rows};
  Neighbours found{std::min({count, first.rows, second.rows}), {}, {}};
  found.of_first.resize(first.rows * found.count);
  found.of_second.resize(second.rows * found.count);
  std::vector<float> first_radii(first.rows), second_radii(second.rows);
  parallel_blocks(first.rows, kRows, threads(), [&] {
    return [&, top = TopValues()](std::size_t from, std::size_t rows) mutable {
      set_product(products.middle_rows(from, rows), first.middle_rows(from, rows), as_eigen(second).transpose());
      for (std::size_t r = from; r < from + rows; ++r) {
        first_radii[r] = top.mean(products.row(r), csls_neighbours(second.rows));
      }
    };
  });
  parallel_blocks(second.rows, kColumns, threads(), [&] {
    return [&, top = TopValues(), columns = Matrix(kColumns, first.rows), scores = std::vector<float>(first.rows)](
               std::size_t from, std::size_t cols) mutable {
      transpose(products.middle_cols(from, cols), columns.view());
      for (std::size_t c = 0; c < cols; ++c) {
        second_radii[from + c] = top.mean(columns.row(c), csls_neighbours(first.rows));
        subtract_half(columns.row(c), first_radii, scores);
        std::ranges::copy(top.find(scores, found.count), &found.of_second[(from + c) * found.count]);
      }
    };
  });
  parallel_blocks(first.rows, kRows, threads(), [&] {
    return
        [&, top = TopValues(), scores = std::vector<float>(second.rows)](std::size_t from, std::size_t rows) mutable {
          for (std::size_t r = from; r < from + rows; ++r) {
            subtract_half(products.row(r), second_radii, scores);
            std::ranges::copy(top.find(scores, found.count), &found.of_first[r * found.count]);
          }
        };
  });
  return found;
}

void Nearest::offer(std::size_t other, float other_score) {
  if (std::tuple(-other_score, other) < std::tuple(-score, place)) {
    next = score;
    score = other_score;
    place = other;
  } else if (other_score > next) {
    next = other_score;
  }
}

RowBlocks blocks_of(MatrixView<const float> rows) {
  return {rows.rows, rows.cols, [rows](std::size_t first, MatrixView<float> out) {
            as_eigen(out) = as_eigen(rows.middle_rows(first, out.rows));
          }};
}

namespace {

/// The mean of the largest products of every row with rows that stand for all of the other side.
std::vector<float> radii_of(const RowBlocks& side, MatrixView<const float> others) {
  std::vector<float> radii(side.rows);
  parallel_blocks(side.rows, kRows, threads(), [&] {
    return [&, top = TopValues(), read = Matrix(kRows, side.cols), products = Matrix(kRows, others.rows)](
               std::size_t from, std::size_t rows) mutable {
      const MatrixView<float> block = read.view().middle_rows(0, rows), cells = products.view().middle_rows(0, rows);
      side.read(from, block);
      set_product(cells, block, as_eigen(others).transpose());
      for (std::size_t r = 0; r < rows; ++r) radii[from + r] = top.mean(cells.row(r), csls_neighbours(others.rows));
    };
  });
  return radii;
}

/// One thread's part of comparing a block of the first side with all of the second.
class Comparer {
 public:
  Comparer(std::size_t cols)
      : read_(kStream, cols), products_(kRows, kStream), columns_(kStream, kRows), scores_(kStream) {}

  /// Offers rows [from, ...) of the second side to `queries`, whose first row has the number `first`, and the other
  /// way round. No other thread may look at these rows of the second side.
  void compare(MatrixView<const float> queries, std::size_t first, std::span<const float> first_radii,
               const RowBlocks& second, std::size_t from, std::span<const float> second_radii,
               std::span<Nearest> of_queries, std::span<Nearest> of_second) {
    const MatrixView<float> keys = read_.view().middle_rows(0, second_radii.size());
    second.read(from, keys);
    for (std::size_t row = 0; row < queries.rows; row += kRows) {
      const std::size_t rows = std::min(kRows, queries.rows - row);
      const MatrixView<float> products{products_.view().data, rows, keys.rows, keys.rows};
      set_product(products, queries.middle_rows(row, rows), as_eigen(keys).transpose());
      for (std::size_t r = 0; r < rows; ++r) {
        offer_best(products.row(r), second_radii, from, of_queries[row + r]);
      }
      const MatrixView<float> columns{columns_.view().data, keys.rows, rows, rows};
      transpose(products, columns);
      for (std::size_t c = 0; c < keys.rows; ++c) {
        offer_best(columns.row(c), first_radii.subspan(row, rows), first + row, of_second[c]);
      }
    }
  }

 private:
  void offer_best(std::span<const float> products, std::span<const float> radii, std::size_t from, Nearest& nearest) {
    const auto scores = std::span(scores_).first(products.size());
    subtract_half(products, radii, scores);
    if (as_eigen(scores).maxCoeff() <= nearest.next) return;
    for (const std::size_t place : top_.find(scores, std::min<std::size_t>(2, scores.size()))) {
      nearest.offer(from + place, scores[place]);
    }
  }

  TopValues top_;
  Matrix read_, products_, columns_;
  std::vector<float> scores_;
};

}  // namespace

NearestOfAll find_nearest(const RowBlocks& first, const RowBlocks& second, MatrixView<const float> first_drawn,
                          MatrixView<const float> second_drawn,
                          const std::function<void(std::size_t, std::size_t)>& tell) {
  const std::vector<float> first_radii = radii_of(first, second_drawn), second_radii = radii_of(second, first_drawn);
  NearestOfAll found{std::vector<Nearest>(first.rows), std::vector<Nearest>(second.rows)};
  Matrix queries(std::min(kOuter, first.rows), first.cols);
  std::mutex lock;
  for (std::size_t row = 0; row < first.rows; row += kOuter) {
    const MatrixView<float> block = queries.view().middle_rows(0, std::min(kOuter, first.rows - row));
    first.read(row, block);
    const auto radii = std::span(first_radii).subspan(row, block.rows);
    const auto nearest = std::span(found.of_first).subspan(row, block.rows);
    parallel_blocks(second.rows, kStream, threads(), [&] {
      return [&, comparer = Comparer(first.cols)](std::size_t from, std::size_t rows) mutable {
        std::vector<Nearest> own(block.rows);
        comparer.compare(block, row, radii, second, from, std::span(second_radii).subspan(from, rows), own,
                         std::span(found.of_second).subspan(from, rows));
        const std::scoped_lock held(lock);
        for (std::size_t r = 0; r < block.rows; ++r) {
          nearest[r].offer(own[r].place, own[r].score);
          nearest[r].next = std::max(nearest[r].next, own[r].next);
        }
      };
    });
    if (tell) tell(row + block.rows, first.rows);
  }
  return found;
}

}  // namespace kedge
