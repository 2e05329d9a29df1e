// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <cstddef>
#include <vector>

namespace kedge {

/// Rows that are there more than once. Leaving out one of them tells nothing, because the others still predict it:
/// equal rows have to be left out together.
class RepeatedRows {
 public:
  explicit RepeatedRows(MatrixView<const double> rows);

  /// For each row, the one that stands for all with the same values and, up to rounding, the same targets; most rows
  /// stand for themselves. Equal rows with other targets are other inputs that the space cannot tell apart.
  [[nodiscard]] std::vector<std::size_t> stand_ins(MatrixView<const double> targets) const;
  /// How many rows stand for themselves.
  [[nodiscard]] std::size_t distinct(MatrixView<const double> targets) const;

 private:
  std::size_t rows_;
  std::vector<std::vector<std::size_t>> alike_;  ///< rows with the same values, two or more of them, ascending
};

}  // namespace kedge
