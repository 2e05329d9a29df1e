// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "anchors/param/alignment.h"
#include "compute/backend.h"

#include <kedge/param.h>

#include <cstddef>
#include <cstdint>
#include <functional>
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
            const Param& options);

  /// Queues what makes the gradient of the total loss of a batch for a mixture (anchors x support), of the same shape,
  /// and adds its losses to losses(). `meanwhile` is called when all losses are there, and may overlap the rest.
  void enqueue(ConstPanel mixture, Ids batch, Panel dmixture, const std::function<void()>& meanwhile = {});
  /// A column of mixture . dmixture by row. It equals anchors . danchors, as anchors are mixture x support.
  [[nodiscard]] ConstPanel inner() { return inner_->panel(); }
  /// A row with a place for every kind and space or pair of spaces, which losses_of() adds up.
  [[nodiscard]] Panel losses() { return losses_->panel(); }
  [[nodiscard]] Losses losses_of(std::span<const float> row) const;

  /// The same for one batch of no more than options.batch rows; waits for its losses.
  Losses evaluate(ConstPanel mixture, std::span<const std::uint32_t> batch, Panel dmixture);

 private:
  /// What one space needs for itself.
  struct Part {
    std::size_t first = 0, dim = 0;  ///< its columns
    std::unique_ptr<Tensor> anchor_lengths, pull, products, gram, dunit;
  };
  enum class Kind : std::size_t { coverage, orthogonality, length, count };

  void make_parts(std::span<const std::size_t> dims, std::size_t batch, std::size_t anchors);
  void measure(std::size_t i, std::size_t rows);
  void compare(std::size_t i);
  void shape(std::size_t rows);
  void cover(std::size_t i, ConstPanel lengths, std::size_t total_rows, Panel products);
  void cover_all_rows(std::size_t i);
  void turn_away(std::size_t i);
  void pull_together(std::size_t i, std::size_t rows);
  [[nodiscard]] std::size_t place(Kind kind, std::size_t i) const {
    return static_cast<std::size_t>(kind) * parts_.size() + i;
  }
  [[nodiscard]] Panel loss(Kind kind, std::size_t i) { return losses_->panel().columns(place(kind, i), 1); }
  [[nodiscard]] Panel columns(Tensor& tensor, std::size_t i) const {
    return tensor.panel().columns(parts_[i].first, parts_[i].dim);
  }

  Backend& backend_;
  Param options_;
  Panel rows_;
  std::unique_ptr<Tensor> own_support_;  ///< empty if the support is all rows
  std::unique_ptr<Packed> support_;
  std::vector<Part> parts_;
  std::optional<Alignment> alignment_;  ///< if there are several spaces and their agreement counts
  std::unique_ptr<Integers> single_batch_;
  std::unique_ptr<Tensor> row_lengths_, x_, lengths_, anchors_, danchors_, unit_, inner_, chunk_, losses_;
};

}  // namespace kedge
