// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/neighbors.h"
#include "support.h"

#include <kedge/lab/stitch.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kedge::test {

inline constexpr std::size_t kRows = 160;
inline constexpr std::size_t kTrainRows = 120;

/// Three spaces that see the same four causes, and a class and targets that follow from them.
struct World {
  std::vector<Matrix> spaces;
  Matrix targets{kRows, 3};
  std::vector<std::int64_t> labels;

  World() {
    const Matrix causes = random_matrix(kRows, 4, 1);
    for (const std::size_t dim : {8U, 6U, 7U}) {
      const Matrix mix = random_matrix(4, dim, static_cast<unsigned>(dim));
      Matrix space = random_matrix(kRows, dim, static_cast<unsigned>(100 + dim));
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t c = 0; c < dim; ++c) {
          float& cell = space.row(r)[c];
          cell = 3 + 0.1F * cell;
          for (std::size_t i = 0; i < 4; ++i) cell += causes.row(r)[i] * mix.row(i)[c];
        }
      }
      spaces.push_back(std::move(space));
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      labels.push_back((causes.row(r)[0] > 0 ? 1 : 0) + (causes.row(r)[1] > 0 ? 2 : 0));
      for (std::size_t c = 0; c < 3; ++c) targets.row(r)[c] = causes.row(r)[c];
    }
  }

  [[nodiscard]] StitchData data() const {
    StitchData data;
    const char* const names[] = {"a", "b", "c"};
    for (std::size_t i = 0; i < spaces.size(); ++i) data.spaces.push_back(space_of(names[i], spaces[i]));
    data.train = {0, kTrainRows};
    data.test = {kTrainRows, kRows};
    data.labels = labels;
    data.targets = view_rows(targets.view(), "targets");
    return data;
  }
};

inline StitchOptions options_for(const std::vector<std::string>& methods) {
  StitchOptions options;
  for (const std::string& method : methods) options.methods.push_back(parse_stitch_method(method));
  FitArguments& point = options.points.front();
  point.anchors = 6;
  point.support = 60;
  point.param.epochs = 4;
  point.param.batch = 32;
  options.head.epochs = 3;
  return options;
}

/// What chooses rows by looking at all of them, in builds without FAISS too.
inline const std::string kClusters = have_faiss() ? "kmeans-wip" : "fps-wip";

inline const std::vector<std::string> kAllMethods{"absolute",   "random-cosine", "random-wip",  kClusters,
                                                  "fps-cosine", "param-single",  "param-multi", "param-cosine",
                                                  "consensus",  "param-ridge",   "random-ridge"};

inline void poison(Matrix& space, std::size_t first, float value) {
  for (std::size_t r = first; r < space.rows(); ++r) std::ranges::fill(space.row(r), value);
}

}  // namespace kedge::test
