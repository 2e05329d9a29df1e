// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"
#include "compute/neighbors.h"
#include "compute/threads.h"
#include "space/farthest.h"

#include <fmt/format.h>
#include <kedge/anchors.h>
#include <kedge/error.h>

#include <vector>

namespace kedge {
namespace {

Matrix one_hot(const std::vector<std::size_t>& chosen, std::size_t support) {
  Matrix mixture(chosen.size(), support);
  for (std::size_t r = 0; r < chosen.size(); ++r) mixture.row(r)[chosen[r]] = 1;
  return mixture;
}

Matrix random_rows(std::size_t support, std::size_t anchors, std::uint64_t seed) {
  return one_hot(Random(seed).sample(support, anchors), support);
}

Matrix cluster_means(MatrixView<const float> support, std::size_t anchors, std::uint64_t seed) {
  const std::vector<std::size_t> clusters = kmeans_clusters(support, anchors, seed);
  std::vector<std::size_t> sizes(anchors);
  for (const std::size_t cluster : clusters) ++sizes[cluster];
  Matrix mixture(anchors, support.rows);
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    mixture.row(clusters[i])[i] = 1 / static_cast<float>(sizes[clusters[i]]);
  }
  // Where duplicates left a cluster empty, a support row drawn at random keeps the mixture convex.
  Random random(seed);
  for (std::size_t r = 0; r < anchors; ++r) {
    if (sizes[r] == 0) mixture.row(r)[random.below(support.rows)] = 1;
  }
  return mixture;
}

}  // namespace

void require_anchors(std::size_t anchors, std::size_t support) {
  if (anchors == 0) throw Error(Code::bad_argument, "anchors is 0, expected 1 or more");
  if (anchors > support) {
    throw Error(
        Code::bad_argument,
        fmt::format("asked for {} anchors, but there are only {} support rows; lower the anchors or raise the support",
                    anchors, support));
  }
}

Matrix choose_anchors(Choice by, MatrixView<const float> support, std::size_t anchors, std::uint64_t seed) {
  const Work work;
  require_anchors(anchors, support.rows);
  switch (by) {
    case Choice::random: return random_rows(support.rows, anchors, seed);
    case Choice::kmeans: return cluster_means(support, anchors, seed);
    case Choice::fps: break;
  }
  return one_hot(farthest_rows(support, anchors, seed), support.rows);
}

}  // namespace kedge
