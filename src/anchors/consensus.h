// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/whitening.h"

#include <kedge/method.h>

namespace kedge {

/// What the consensus is taken of, by space.
struct ConsensusTask {
  std::span<const WhiteningBasis> bases;
  std::span<const CentredRows* const> rows;  ///< the support, less the means of the bases
  std::size_t anchors = 0;
  /// By space, which support rows embed the same input as the others'; empty if all do. What spaces share is then
  /// learned from the rows that are right in both, and each of the support's scores from the spaces that are right.
  std::span<const std::vector<bool>> right = {};
  std::span<const Matrix64> support = {};  ///< of each space, if some rows are wrong
};

/// The targets at the support, support x anchors: scores along the directions in which the whitened spaces, side by
/// side, vary most, each weighted by how far the spaces agree on it.
struct ConsensusResult {
  Matrix targets;
  std::vector<double> eigenvalues;  ///< of each anchor, descending
};

/// `joint` are the moments of the spaces side by side. If the spaces agree on fewer directions than anchors were asked
/// for, there are fewer anchors. Throws Error(Code::bad_argument) if they agree on none or the power is not 0 or more.
[[nodiscard]] ConsensusResult find_consensus(const ConsensusTask& task, Moments joint, const Consensus& options,
                                             Device device = Device::cpu);

/// How many anchors there are without those at the end whose targets are all 0, which bundles of earlier versions have.
[[nodiscard]] std::size_t agreed_anchors(const Matrix& targets);

}  // namespace kedge
