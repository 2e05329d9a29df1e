// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace kedge {

/// Symmetric InfoNCE between the relative representations of several spaces, averaged over their pairs, and its
/// gradient. Owns the buffers for batches of up to `batch` rows.
class Alignment {
 public:
  Alignment(Backend& backend, std::size_t spaces, std::size_t batch, std::size_t anchors, double tau);
  /// Floats of those buffers.
  [[nodiscard]] static std::size_t floats_needed(std::size_t spaces, std::size_t batch, std::size_t anchors);

  /// Keeps the directions of one space's rows, of which all spaces have as many. The products may then be overwritten.
  void take(std::size_t space, ConstPanel products);
  /// Pairs of spaces.
  [[nodiscard]] std::size_t pairs() const { return pairs_.size(); }
  /// Adds the loss of the rows that were taken last to `losses`, a row with a place for every pair, and keeps `weight`
  /// times its gradient for give().
  void align(std::size_t rows, double weight, Panel losses);
  /// Adds the gradient of one space's products to them.
  void give(std::size_t space, Panel dproducts);

 private:
  struct Side {
    std::unique_ptr<Tensor> lengths;
    std::unique_ptr<Tensor> cosines;  ///< or their gradient; the other spaces side by side, beginning with the next
    std::unique_ptr<Tensor> ddirections;
  };
  struct Pair {
    std::size_t first, second;
  };

  [[nodiscard]] Panel directions(std::size_t place, std::size_t rows, std::size_t spaces = 1);
  [[nodiscard]] Panel cosines(std::size_t space, std::size_t other, std::size_t rows);

  Backend& backend_;
  float tau_;
  std::vector<Side> sides_;
  std::vector<Pair> pairs_;
  // One space after the other, and then the first ones again: so the directions of all spaces but one are contiguous,
  // beginning with the next, and one product takes the gradient of its cosines back.
  std::unique_ptr<Tensor> directions_;
};

}  // namespace kedge
