// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "match/refine.h"

#include <kedge/match.h>

namespace kedge {

/// All rows of a space in the coordinates of an alignment, as they are read.
[[nodiscard]] RowBlocks aligned_rows(const Space& space, const PrincipalRows& principal, const Matrix& directions);

/// Two maps of which the other tells how sure the first is.
struct TwoMaps {
  const Matrix64 &map, &other;
};

/// Puts all mutual neighbours of two spaces into `match`, with their chances and their share of the smaller space.
void find_pairs(const Space& first, const Space& second, const TwoSpaces& principal, const TwoMaps& maps,
                std::uint64_t seed, Match& match, const Tell& tell);

/// The chance of a pair by its margin, never smaller for a larger margin: the share of pairs with about that margin
/// which are confirmed.
class Chances {
 public:
  struct Trial {
    float margin = 0;
    bool confirmed = false;
  };
  explicit Chances(std::vector<Trial> trials);
  [[nodiscard]] float of(float margin) const;

 private:
  std::vector<float> margins_, chances_;  ///< the least margin of each group, ascending, and its chance
};

}  // namespace kedge
