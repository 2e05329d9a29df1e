// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>

namespace kedge {

/// The rows at these positions.
template <class T>
[[nodiscard]] BasicMatrix<std::remove_const_t<T>> pick_rows(MatrixView<T> rows,
                                                            std::span<const std::size_t> positions) {
  BasicMatrix<std::remove_const_t<T>> picked(positions.size(), rows.cols);
  for (std::size_t i = 0; i < positions.size(); ++i) std::ranges::copy(rows.row(positions[i]), picked.row(i).begin());
  return picked;
}

}  // namespace kedge
