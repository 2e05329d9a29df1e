// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/backend.h"
#include "train/alignment.h"

#include <kedge/param.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace kedge {

/// Whitened embeddings of all spaces side by side in a backend's memory: rows x (sum of dims).
struct WhitenedSpaces {
  std::unique_ptr<Tensor> rows;
  std::vector<std::size_t> dims;  ///< columns of each space, in order
};

/// The four losses of PARAM and their gradient with respect to the mixture, written once for every backend. Owns the
/// buffers of a step; nothing of size rows x support is ever made.
class Objective {
 public:
  /// `support` are row numbers of `spaces`. Backend and spaces must outlive it.
  Objective(Backend& backend, const WhitenedSpaces& spaces, std::span<const std::uint32_t> support, std::size_t anchors,
            const ParamOptions& options);

  /// Losses of these rows for a mixture (anchors x support), and the gradient of their total, of the same shape.
  Losses evaluate(ConstPanel mixture, std::span<const std::uint32_t> batch, Panel dmixture);

 private:
  /// What one space needs for itself.
  struct Part {
    std::size_t first = 0, dim = 0;  ///< its columns
    std::unique_ptr<Tensor> anchor_lengths, pull, products;
  };

  void cover(Part& part, ConstPanel lengths, std::size_t total_rows, Panel products);
  void cover_all_rows(Part& part);
  void shape_anchors(Part& part);
  [[nodiscard]] Losses read_losses();
  [[nodiscard]] Panel loss(std::size_t which) { return losses_->panel().columns(which, 1); }

  Backend& backend_;
  ParamOptions options_;
  Panel rows_, support_;
  std::unique_ptr<Tensor> own_support_;  ///< empty where the support is all rows
  std::vector<Part> parts_;
  std::optional<Alignment> alignment_;  ///< where there are several spaces and their agreement counts
  std::unique_ptr<Tensor> row_lengths_, x_, lengths_, anchors_, danchors_, unit_, dunit_, gram_, chunk_, losses_;
};

}  // namespace kedge
