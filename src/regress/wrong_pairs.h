// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <cstddef>
#include <vector>

namespace kedge {

/// What the other pairs say of each pair of rows.
struct PairDoubts {
  std::vector<bool> wrong;  ///< by pair: no more alike than rows that were paired at random
  double share = 0;         ///< of pairs that look wrong: an estimate, which knows better how many than which
  bool unsure = false;      ///< right pairs are hardly more alike than random ones, so that they may look wrong
};

/// With fewer pairs, or if fewer of them hold, nobody can tell right from wrong.
constexpr std::size_t kLeastPairs = 100;

/// Row n of both should embed the same input; pairs of which that is not so are found. A ridge from one side to the
/// other foretells each row without its own pair, and what it makes of rows that are not paired, without either of
/// theirs, shows how a wrong pair looks. Pairs that look so are left out, and the ridge is fitted again, until it
/// settles or for so many rounds. None is found wrong where rows are too few to tell, and all where nothing holds them
/// together.
[[nodiscard]] PairDoubts doubt_pairs(MatrixView<const double> from, MatrixView<const double> to, std::size_t rounds);

}  // namespace kedge
