// SPDX-License-Identifier: Apache-2.0
#include "space/row_block.h"

#include "base/eigen.h"

#include <algorithm>
#include <cmath>

namespace kedge {
namespace {

/// How much more alike each pair is than random ones, in standard deviations of the latter.
Eigen::ArrayXd deviations_of(std::span<const FoundRow> rows) {
  Eigen::ArrayXd result(static_cast<Eigen::Index>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const FoundRow& row = rows[i];
    result[static_cast<Eigen::Index>(i)] = row.variance > 0 ? row.above / std::sqrt(row.variance) : 0;
  }
  return result;
}

/// The block whose values have the largest sum, in one pass (Kadane).
OddBlock largest_sum(const Eigen::ArrayXd& values) {
  OddBlock best;
  double sum = 0, most = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(values.size()); ++i) {
    if (sum <= 0) {
      sum = 0;
      begin = i;
    }
    sum += values[static_cast<Eigen::Index>(i)];
    if (sum > most) {
      most = sum;
      best = {begin, i + 1};
    }
  }
  return best;
}

}  // namespace

std::optional<OddBlock> find_odd_block(std::span<const FoundRow> rows) {
  constexpr std::size_t kLeastRows = 8;
  constexpr std::size_t kEdge = 5;    // so few rows between a block and the end belong to it: some are found by chance
  constexpr double kNotByChance = 5;  // the oddest of all blocks of true pairs stays below 4
  const Eigen::ArrayXd found = deviations_of(rows);
  OddBlock block = largest_sum(std::max(found.mean(), 0.0) / 2 - found);
  if (block.begin < kEdge) block.begin = 0;
  if (rows.size() - block.end < kEdge) block.end = rows.size();
  const std::size_t inside = block.end - block.begin, outside = rows.size() - inside;
  if (inside < kLeastRows || outside < kLeastRows) return {};
  const auto in_block = found.segment(static_cast<Eigen::Index>(block.begin), static_cast<Eigen::Index>(inside));
  const double count = static_cast<double>(outside), mean = (found.sum() - in_block.sum()) / count;
  const double variance = ((found - mean).square().sum() - (in_block - mean).square().sum()) / count;
  const double errors = 1 / static_cast<double>(inside) + 1 / count;
  block.contrast = (mean - in_block.mean()) / std::sqrt(std::max(variance, 1.0) * errors);
  if (!(block.contrast > kNotByChance)) return {};
  return block;
}

}  // namespace kedge
