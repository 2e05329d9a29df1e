// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"
#include "base/random.h"
#include "base/wording.h"
#include "compute/neighbors.h"
#include "compute/threads.h"

#include <kedge/anchors.h>

#include <algorithm>
#include <numeric>

namespace kedge {
namespace {

Matrix one_hot(const std::vector<std::size_t>& chosen, std::size_t support) {
  Matrix mixture(chosen.size(), support);
  for (std::size_t r = 0; r < chosen.size(); ++r) mixture.row(r)[chosen[r]] = 1;
  return mixture;
}

Matrix cluster_means(MatrixView<const float> support, std::size_t anchors, std::uint64_t seed) {
  const std::vector<std::size_t> clusters = kmeans_clusters(support, anchors, seed);
  std::vector<std::size_t> sizes(anchors);
  for (const std::size_t cluster : clusters) ++sizes[cluster];
  Matrix mixture(anchors, support.rows);
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    mixture.row(clusters[i])[i] = 1 / static_cast<float>(sizes[clusters[i]]);
  }
  // If duplicates left a cluster empty, a support row drawn at random keeps the mixture convex.
  Random random(seed);
  for (std::size_t r = 0; r < anchors; ++r) {
    if (sizes[r] == 0) mixture.row(r)[random.below(support.rows)] = 1;
  }
  return mixture;
}

void require_convex(std::span<const float> weights, std::size_t anchor) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (std::ranges::all_of(weights, [](float weight) { return weight >= 0; }) && sum > 0) return;
  refuse(
      "the largest weights of a mixture can be kept only if none is negative and some are above 0, which is not so "
      "for anchor {}; keep all of them",
      anchor);
}

/// `columns` has room for the numbers of all columns.
void keep_largest_of(std::span<float> weights, std::size_t keep, std::vector<std::size_t>& columns) {
  std::iota(columns.begin(), columns.end(), std::size_t{0});
  const auto dropped = columns.begin() + static_cast<std::ptrdiff_t>(keep);
  std::ranges::nth_element(columns, dropped, [&](std::size_t a, std::size_t b) {
    return weights[a] != weights[b] ? weights[a] > weights[b] : a < b;
  });
  // If only zeros are dropped, dividing by a sum that is 1 up to rounding would change the rest.
  if (std::all_of(dropped, columns.end(), [&](std::size_t column) { return weights[column] == 0; })) return;
  std::for_each(dropped, columns.end(), [&](std::size_t column) { weights[column] = 0; });
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (float& weight : weights) weight = static_cast<float>(weight / sum);
}

std::vector<std::size_t> used_columns(const Matrix& mixture) {
  std::vector<bool> used(mixture.cols());
  for (std::size_t r = 0; r < mixture.rows(); ++r) {
    for (std::size_t c = 0; c < mixture.cols(); ++c) used[c] = used[c] || mixture.row(r)[c] != 0;
  }
  std::vector<std::size_t> columns;
  for (std::size_t c = 0; c < used.size(); ++c) {
    if (used[c]) columns.push_back(c);
  }
  return columns;
}

}  // namespace

void require_anchors(std::size_t anchors, std::size_t support) {
  if (anchors == 0) refuse("anchors is 0, expected 1 or more");
  if (anchors <= support) return;
  refuse("asked for {} anchors, but there are only {} support rows; lower the anchors or raise the support", anchors,
         support);
}

Matrix choose_anchors(Choice by, MatrixView<const float> support, std::size_t anchors, std::uint64_t seed) {
  const Work work;
  require_anchors(anchors, support.rows);
  switch (by) {
    case Choice::random: return one_hot(Random(seed).sample(support.rows, anchors), support.rows);
    case Choice::kmeans: return cluster_means(support, anchors, seed);
    case Choice::fps: break;
  }
  return one_hot(farthest_rows(support, anchors, seed), support.rows);
}

SparseMixture keep_largest(Matrix mixture, std::size_t keep) {
  std::vector<std::size_t> columns(mixture.cols());
  if (keep == 0 || keep >= mixture.cols()) {
    std::iota(columns.begin(), columns.end(), std::size_t{0});
    return {std::move(mixture), std::move(columns)};
  }
  for (std::size_t r = 0; r < mixture.rows(); ++r) {
    require_convex(mixture.row(r), r);
    keep_largest_of(mixture.row(r), keep, columns);
  }
  columns = used_columns(mixture);
  Matrix smaller = matrix_of<float>(as_eigen(mixture.view())(Eigen::all, columns));
  return {std::move(smaller), std::move(columns)};
}

}  // namespace kedge
