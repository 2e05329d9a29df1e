// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/eigh.h"
#include "backend/whitener.h"

#include <kedge/device.h>
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

/// `share` times the lower triangle of `scatter` is the covariance before it is whitened, space by space.
[[nodiscard]] std::unique_ptr<const WhitenedCovariance> whiten_covariance(
    MatrixView<const double> scatter, double share, std::span<const std::shared_ptr<const Whitener>> whiteners,
    std::span<const std::size_t> dims, Device device);

}  // namespace kedge
