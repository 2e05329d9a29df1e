// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "anchors/param/objective.h"
#include "base/random.h"

#include <kedge/method.h>

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

/// Targets after refinement, and the contrastive loss on rows held out: before it, then after every epoch.
struct Refined {
  Matrix targets;
  std::vector<double> losses;
};

/// The rows that are learned from, and those that only tell when to stop.
struct RefineRows {
  std::vector<std::uint32_t> learned, watched;
};

/// Watches a tenth of the rows, `most` at most: rows outside of the support, which the ridge has not seen, and support
/// rows only if there are too few of those.
[[nodiscard]] RefineRows split_rows(const Space& space, std::span<const std::int64_t> support_ids, std::size_t most,
                                    Random& random);

/// Throws Error(Code::bad_argument) for a single space or bad options.
void require_refinement(std::size_t spaces, const Refinement& options);

/// How each space is whitened, and its support rows.
struct RefineSources {
  std::span<const Whitening> whitenings;
  std::span<const Matrix64> supports;
};

/// About how many floats a backend holds while it refines: all rows of all spaces and the regressors of the support,
/// targets with their gradient and moments, and the buffers of a batch with the cosines of every pair of spaces.
[[nodiscard]] std::size_t refinement_floats(std::span<const std::size_t> dims, std::size_t rows, std::size_t support,
                                            std::size_t anchors, std::size_t batch);

/// Improves the targets of a consensus (support x anchors) by gradient. Every space regresses them by ridge; the
/// targets move so that the same row of two spaces becomes easier to tell from all others. Returns the targets that did
/// best on rows held out. `rows` are all rows of the spaces, `support_ids` the numbers of the support rows in their
/// files. Throws what require_refinement throws.
[[nodiscard]] Refined refine_targets(Backend& backend, const RefineSources& sources, std::span<const Space> rows,
                                     std::span<const std::int64_t> support_ids, const Matrix& targets,
                                     const Refinement& options, std::uint64_t seed, const Progress& progress);

}  // namespace kedge
