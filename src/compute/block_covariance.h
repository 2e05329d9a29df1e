// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/change_of_basis.h"
#include "compute/eigh.h"

#include <kedge/matrix.h>

#include <memory>
#include <span>
#include <vector>

namespace kedge {

/// Directions of several blocks of columns side by side.
struct Directions {
  Eigenpairs pairs;                   ///< ascending
  std::vector<double> own_variances;  ///< of each: its variance within the blocks, without what they share
};

/// The covariance of several blocks of columns side by side, each in coordinates of its own.
class BlockCovariance {
 public:
  virtual ~BlockCovariance() = default;
  /// The `count` in which they vary most; all if there are no more.
  [[nodiscard]] virtual Directions leading(std::size_t count) const = 0;
};

/// The lower triangle of `scatter`, divided by `rows`, is the covariance before the coordinates are changed. `bases`
/// and `dims` are those of the blocks.
[[nodiscard]] std::unique_ptr<const BlockCovariance> make_block_covariance(
    Matrix64 scatter, double rows, std::span<const std::shared_ptr<const ChangeOfBasis>> bases,
    std::span<const std::size_t> dims, Device device);

}  // namespace kedge
