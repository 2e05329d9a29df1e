// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <cstddef>
#include <vector>

namespace kedge {

/// Rows that are there more than once. Leaving out one of them tells nothing, as the others still know it: to judge by
/// rows left out, all that are alike have to go together.
class RepeatedRows {
 public:
  explicit RepeatedRows(MatrixView<const double> rows);

  /// For each row, one that stands for all with the same values and, but for rounding, the same targets; most rows
  /// stand for themselves. Equal rows with other targets are other inputs, which the space cannot tell apart.
  [[nodiscard]] std::vector<std::size_t> stand_ins(MatrixView<const double> targets) const;
  /// How many rows are left if each is there once.
  [[nodiscard]] std::size_t distinct(MatrixView<const double> targets) const;

 private:
  std::size_t rows_;
  std::vector<std::vector<std::size_t>> alike_;  ///< rows with the same values, two or more of them, ascending
};

}  // namespace kedge
