// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "match/neighbours.h"

#include <kedge/progress.h>
#include <kedge/space.h>

#include <cstdint>
#include <vector>

namespace kedge {

/// What matching keeps of a space: where its rows lie, and some of them as they are compared: centred, of unit length,
/// and then in principal coordinates.
struct PrincipalRows {
  std::vector<double> mean;       ///< of all rows
  Matrix basis;                   ///< rank x dim: the principal directions of the drawn rows
  std::vector<double> variances;  ///< along these directions
  Matrix rows;                    ///< drawn x rank
  double spread = 0;              ///< mean squared length of centred rows

  [[nodiscard]] std::size_t rank() const { return basis.rows(); }
  /// Rows of the space in these coordinates.
  [[nodiscard]] Matrix coordinates(const Matrix64& embeddings) const;
  /// The rows with directions of much variance weighing less, of unit length again.
  [[nodiscard]] Matrix half_whitened(const Matrix& coordinates) const;
};

/// Reads all rows once. Throws Error(Code::bad_file) if they are all the same, or one holds NaN.
[[nodiscard]] PrincipalRows read_principal_rows(const Space& space, std::size_t most_rows, std::size_t most_rank,
                                                std::uint64_t seed, const Progress& progress);

/// first^T second, in blocks that do not depend on the number of threads, so that neither do the bits.
[[nodiscard]] Matrix cross_product(MatrixView<const float> first, MatrixView<const float> second);
/// Unit rows of `rows` weight^T, in such blocks.
[[nodiscard]] Matrix project(MatrixView<const float> rows, const Matrix& weight);

}  // namespace kedge
