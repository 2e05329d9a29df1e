// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/eigen.h"

#include <kedge/row_check.h>

#include <span>
#include <vector>

namespace kedge {

/// So many rows tell more than enough.
constexpr std::size_t kMostCheckedRows = 1500;

/// Positions spread evenly over `total` rows: all of them, or kMostCheckedRows. Ascending.
[[nodiscard]] std::vector<std::size_t> checked_positions(std::size_t total);

/// The rows of one space as the check compares them: projected on a few random directions, whitened, of unit length.
/// Any scale and any width will do.
[[nodiscard]] EigenRows<float> sketch_rows(MatrixView<const double> rows);

/// Onto `width` random directions, if there are more: the same for all rows of a width, and on every machine.
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
  std::size_t among = 0;  ///< in how many each was sought
};

/// How rows of `own` find their partners, the same rows of `others`. Rows that are not looked up are the anchors
/// through which two spaces are compared, so nothing is learned from a pair that is judged.
[[nodiscard]] LookedUp look_up(const EigenRows<float>& own, std::span<const EigenRows<float>> others);
/// What all of these rows say together.
[[nodiscard]] RowCheck check_of(std::span<const FoundRow> rows, std::size_t among);

}  // namespace kedge
