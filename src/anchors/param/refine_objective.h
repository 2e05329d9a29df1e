// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "anchors/param/alignment.h"
#include "anchors/param/objective.h"
#include "compute/backend.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace kedge {

/// The contrastive loss of a batch as a function of the transposed targets (anchors x support), which every space
/// regresses by ridge: RR = x (targets regressor)^T.
class RefineObjective {
 public:
  /// `regressors` has those of all spaces side by side, support x (sum of dims). It and the backend must outlive this.
  RefineObjective(Backend& backend, WhitenedSpaces spaces, ConstPanel regressors, std::size_t anchors,
                  std::size_t batch, double tau);

  /// The loss of these rows, no more than a batch, and the gradient of the targets if there is a place for it.
  double evaluate(ConstPanel targets, std::span<const std::uint32_t> rows, std::optional<Panel> dtargets);

 private:
  void for_spaces(const std::function<void(std::size_t, std::size_t, std::size_t)>& work);

  Backend& backend_;
  WhitenedSpaces spaces_;
  ConstPanel regressors_;
  Alignment alignment_;
  std::unique_ptr<Integers> ids_;
  std::unique_ptr<Tensor> x_, anchors_, danchors_, losses_;
  std::vector<std::unique_ptr<Tensor>> products_;
};

}  // namespace kedge
