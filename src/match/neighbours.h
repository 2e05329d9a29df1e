// SPDX-License-Identifier: Apache-2.0
// Nearest neighbours by CSLS: an inner product less half the mean of the 10 largest of its row and of its column, so
// that a row which is near to everything is nobody's neighbour.
#pragma once

#include <kedge/matrix.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace kedge {

inline constexpr std::size_t kCslsNeighbours = 10;

/// How many rows count as near among so many: kCslsNeighbours, or a quarter of few rows.
[[nodiscard]] std::size_t csls_neighbours(std::size_t rows);

/// Finds the largest values of rows. Keeps its memory from row to row.
class TopValues {
 public:
  /// Where the `count` largest are, in no order; of equal values the first. The span lasts until the next call.
  [[nodiscard]] std::span<const std::size_t> find(std::span<const float> row, std::size_t count);
  [[nodiscard]] float mean(std::span<const float> row, std::size_t count);

 private:
  std::vector<float> lanes_;
  std::vector<std::size_t> places_;
};

/// For each row of one side the numbers of its `count` neighbours on the other, row after row.
struct Neighbours {
  std::size_t count = 0;
  std::vector<std::size_t> of_first, of_second;
};

/// By CSLS among unit rows of both sides. `room` is memory to work in.
[[nodiscard]] Neighbours find_neighbours(MatrixView<const float> first, MatrixView<const float> second,
                                         std::size_t count, std::vector<float>& room);

/// The nearest row, how near, and how near the next one is.
struct Nearest {
  std::size_t place = std::numeric_limits<std::size_t>::max();
  float score = -std::numeric_limits<float>::infinity();
  float next = -std::numeric_limits<float>::infinity();

  void offer(std::size_t other, float other_score);
  /// Both are CSLS of the same row; scores lack the half mean that is the same for all candidates.
  [[nodiscard]] float margin() const { return score - next; }
};

/// Unit rows that are read in blocks, from any thread.
struct RowBlocks {
  std::size_t rows = 0, cols = 0;
  std::function<void(std::size_t first, MatrixView<float> out)> read;
};
[[nodiscard]] RowBlocks blocks_of(MatrixView<const float> rows);

/// For all rows of each side the nearest of the other. Radii come from `first_drawn` and `second_drawn`, unit rows that
/// stand for all. Memory grows with the number of rows by a few words for each. `tell` hears how many blocks of the
/// first side are done, of how many.
struct NearestOfAll {
  std::vector<Nearest> of_first, of_second;
};
[[nodiscard]] NearestOfAll find_nearest(const RowBlocks& first, const RowBlocks& second,
                                        MatrixView<const float> first_drawn, MatrixView<const float> second_drawn,
                                        const std::function<void(std::size_t, std::size_t)>& tell = {});

}  // namespace kedge
