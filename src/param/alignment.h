// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/backend.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace kedge {

/// Symmetric InfoNCE between the relative representations of several spaces, averaged over their pairs, and its
/// gradient. Owns the buffers for batches of up to `batch` rows.
class Alignment {
 public:
  Alignment(Backend& backend, std::size_t spaces, std::size_t batch, std::size_t anchors, double tau);

  /// Keeps the rows' directions of one space; the products may be overwritten after that.
  void take(std::size_t space, ConstPanel products);
  /// Pairs of spaces.
  [[nodiscard]] std::size_t pairs() const { return pairs_.size(); }
  /// Adds the loss of the rows last taken to `losses`, a row with the share of every pair, and keeps `weight` times its
  /// gradient for give().
  void align(std::size_t rows, double weight, Panel losses);
  /// Adds the gradient of one space's products to them.
  void give(std::size_t space, Panel dproducts);

 private:
  struct Side {
    std::unique_ptr<Tensor> rr, lengths;
    std::vector<std::unique_ptr<Tensor>> drr;  ///< the gradient, as a sum of these
  };
  struct Pair {
    std::size_t first, second;
  };

  [[nodiscard]] Panel cosines(std::size_t pair, std::size_t rows);
  void pass_back(std::size_t space, std::size_t part, std::size_t first_pair, std::size_t end_pair, std::size_t rows);

  Backend& backend_;
  float tau_;
  std::size_t parts_;  ///< of a side's gradient
  std::vector<Side> sides_;
  std::vector<Pair> pairs_;
  std::vector<std::unique_ptr<Tensor>> cosines_;  ///< of as many pairs as are worked on at once
};

}  // namespace kedge
