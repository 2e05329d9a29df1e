// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/eigen.h"

#include <algorithm>
#include <type_traits>

namespace kedge {

/// unit = row / |row|; unit may be the row itself, and is not written if the row is zero. Computed in float64: squares
/// of float32 can neither overflow nor vanish there; those of float64 can, and take a slower way.
template <class T, class To>
void set_unit(std::span<T> row, std::span<To> unit) {
  const auto wide = as_eigen(row).template cast<double>();
  const double length = std::is_same_v<std::remove_const_t<T>, float> ? wide.norm() : wide.stableNorm();
  if (length > 0) as_eigen(unit) = (wide / length).template cast<To>();
}

/// Rows of length 1; a zero row stays zero, so its cosine with anything is 0.
template <class T>
[[nodiscard]] Matrix unit_rows(MatrixView<T> rows) {
  Matrix unit(rows.rows, rows.cols);
  for (std::size_t r = 0; r < rows.rows; ++r) set_unit(rows.row(r), unit.row(r));
  return unit;
}

/// The rows at these positions.
template <class T>
[[nodiscard]] BasicMatrix<std::remove_const_t<T>> pick_rows(MatrixView<T> rows,
                                                            std::span<const std::size_t> positions) {
  BasicMatrix<std::remove_const_t<T>> picked(positions.size(), rows.cols);
  for (std::size_t i = 0; i < positions.size(); ++i) std::ranges::copy(rows.row(positions[i]), picked.row(i).begin());
  return picked;
}

}  // namespace kedge
