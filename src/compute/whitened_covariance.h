// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/eigh.h"
#include "compute/whitener.h"

#include <kedge/matrix.h>

#include <memory>
#include <span>
#include <vector>

namespace kedge {

/// Directions of several spaces side by side.
struct Directions {
  Eigenpairs pairs;                   ///< ascending
  std::vector<double> own_variances;  ///< of each: what it has within the spaces, without what they share
};

/// The covariance of several whitened spaces side by side.
class WhitenedCovariance {
 public:
  virtual ~WhitenedCovariance() = default;
  /// The `count` in which they vary most; all where there are no more.
  [[nodiscard]] virtual Directions leading(std::size_t count) const = 0;
};

/// Of the covariance as it is before the spaces are whitened, whole, in memory.
[[nodiscard]] std::unique_ptr<const WhitenedCovariance> whiten_covariance(
    Matrix64 covariance, std::span<const std::shared_ptr<const Whitener>> whiteners, std::span<const std::size_t> dims);

}  // namespace kedge
