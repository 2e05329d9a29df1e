// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <kedge/param.h>
#include <kedge/progress.h>
#include <kedge/space.h>
#include <kedge/whitening.h>

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
  /// Adds the loss of the rows taken last to `losses`, a row with a place per pair; keeps `weight` times its gradient.
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

/// Reads the spaces once more and puts their whitened rows side by side into the backend's memory, block by block.
[[nodiscard]] WhitenedSpaces whiten_spaces(Backend& backend, std::span<const Space> spaces,
                                           std::span<const Whitening> whitenings, const Progress& progress);

}  // namespace kedge
