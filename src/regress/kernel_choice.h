// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/eigen.h"
#include "regress/kernel_ridge.h"

#include <span>
#include <vector>

namespace kedge {

// So many rows choose all three; so many then choose width and strength again, as both may move with the rows.
constexpr std::size_t kFirstRows = 1000, kMoreRows = 3000;
// The errors of so many rows tell how well a map does; those of all would take as long as the map itself.
constexpr std::size_t kMostJudged = 2000;

struct KernelChoice {
  double width = 0, strength = 0, whitening = 0;
};

/// The width, strength and whitening with the least leave-one-out error, but for what the options give. `residuals` are
/// the targets around their means, and `rows` those that count: each once, as a row that is there twice knows itself.
[[nodiscard]] KernelChoice choose_kernel(const KernelTask& task, const Matrix64& residuals,
                                         std::span<const std::size_t> rows, const KernelOptions& options);

/// These rows, or `most` of them, evenly spread.
[[nodiscard]] std::vector<std::size_t> pick_spread(std::span<const std::size_t> rows, std::size_t most);

/// What each eigenvector of a covariance is multiplied by to whiten its space so far.
[[nodiscard]] Eigen::RowVectorXd whitening_scale(std::span<const double> variances, double whitening);

}  // namespace kedge
