// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/eigen.h"

#include <kedge/row_check.h>

namespace kedge {

/// More rows would not tell more.
constexpr std::size_t kMostCheckedRows = 1500;

/// Positions spread evenly over `total` rows: all of them, or kMostCheckedRows. Ascending.
[[nodiscard]] std::vector<std::size_t> checked_positions(std::size_t total);

/// A space's rows, of any scale and width, as they are compared: on a few random directions, whitened, of length 1.
[[nodiscard]] EigenRows<float> sketch_rows(MatrixView<const double> rows);

/// Projects wider rows onto `width` random directions: the same ones for all rows of a width, and on every machine.
[[nodiscard]] EigenRows<float> project_rows(const EigenRows<float>& rows, Eigen::Index width);

/// One row that was looked up, against all partners it could have had.
struct FoundRow {
  std::size_t row = 0;  ///< its place in the sketch
  double above = 0;     ///< how much more alike its own partner is than the others
  double variance = 0;  ///< of how alike the others are
  double first = 0;     ///< 1 if its own partner is the most alike, a share of that for a tie
};
struct LookedUp {
  std::vector<FoundRow> rows;
  std::size_t among = 0;  ///< how many rows each was looked up in
};

/// Looks up the rows of `own` among those of `others`, where its partner is the same row. Two spaces are compared
/// through rows that are not looked up, so nothing is learned from a pair that is judged.
[[nodiscard]] LookedUp look_up(const EigenRows<float>& own, std::span<const EigenRows<float>> others);
/// What all of these rows say together.
[[nodiscard]] RowCheck check_of(std::span<const FoundRow> rows, std::size_t among);

/// Rows [begin, end) of those that were looked up, found so much worse than the rest that it cannot be chance.
struct OddBlock {
  std::size_t begin = 0, end = 0;
  double contrast = 0;  ///< between the block and the rest, in standard errors
};

/// The oddest block of rows that follow each other, if there is one. `rows` are in the order of the file.
[[nodiscard]] std::optional<OddBlock> find_odd_block(std::span<const FoundRow> rows);

}  // namespace kedge
