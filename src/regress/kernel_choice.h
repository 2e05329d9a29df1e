// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/eigen.h"
#include "regress/kernel_ridge.h"

#include <span>
#include <vector>

namespace kedge {

// The first rows choose all three; more rows then choose width and strength again, which depend on how many there are.
constexpr std::size_t kFirstRows = 1000, kMoreRows = 3000;
// Enough rows to tell how well a map does; the errors of all would take as long as the map itself.
constexpr std::size_t kMostJudged = 2000;

struct KernelChoice {
  double width = 0, strength = 0, whitening = 0;
};

/// The width, strength and whitening with the least leave-one-out error, unless the options give them. `residuals` are
/// the centred targets; `rows` lists each distinct row once, because a row that is there twice predicts itself.
[[nodiscard]] KernelChoice choose_kernel(const KernelTask& task, const Matrix64& residuals,
                                         std::span<const std::size_t> rows, const KernelOptions& options);

/// These rows, or `most` of them, evenly spread.
[[nodiscard]] std::vector<std::size_t> pick_spread(std::span<const std::size_t> rows, std::size_t most);

/// What each eigenvector of a covariance is multiplied by to whiten the space partly, keeping its mean variance.
[[nodiscard]] Eigen::RowVectorXd whitening_scale(std::span<const double> variances, double whitening);

}  // namespace kedge
