// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/random.h"
#include "match/principal.h"

#include <functional>
#include <optional>

namespace kedge {

/// The numbers of the method; what they were chosen by is in experiments/match.
struct MatchConstants {
  std::size_t rows = 20000, rank = 256;                   ///< kept of a space
  std::size_t centres = 50, restarts = 30, starts = 300;  ///< of a first map
  std::size_t centre_rows = 8000;                         ///< that the centres are of
  std::size_t step_rows = 4000;                           ///< of a side in a soft step, and twice those in a hard one
  std::size_t soft_steps = 60, soft_again = 40, hard_steps = 6;
  std::size_t rounds = 4;       ///< of steps, while the share of mutual neighbours grows
  double growth = 0.01;         ///< of that share, for another round
  double plateau = 0.75;        ///< a share that needs no other round
  double draw = 0.7;            ///< share of the rows that a step may see: one that sees all has fixed points
  double most_neighbours = 50;  ///< averaged in the first soft step; 1 in the last
  double alpha = 0.5;           ///< spectral weight of the first soft step; 0 in the last
  double soft_pairs = 1, hard_pairs = 0.3;  ///< weight of known pairs
  int directions = 12;                      ///< least that a space may vary in
  std::size_t uneven = 3;                   ///< times as many rows: more, and mutual neighbours prove nothing
  double kept_back = 0.3;                   ///< share of known pairs that judge
  double agree = 0.3;                       ///< two runs that send this share of rows to the same place are both right
  double mutual = 0.6;                      ///< share of mutual neighbours below which most rows have no like
  double found = 0.2;                       ///< MRR of kept-back pairs below which they are not found
};
inline constexpr MatchConstants kMatch;

/// Two spaces in principal coordinates, and pairs of rows that are known, in the same coordinates.
struct TwoSpaces {
  PrincipalRows first, second;
};
struct KnownRows {
  Matrix first, second;
  [[nodiscard]] bool empty() const { return first.rows() == 0; }
};

/// Both sides in the singular basis of a cross-covariance, less what it says nothing about; direction i is weighted by
/// s_i^(alpha / 2), so that 0 makes it a rotation.
struct Alignment {
  Matrix first, second;  ///< directions x rank
};
[[nodiscard]] Alignment align(const Matrix64& between, double alpha = 0);

/// How much is done of how much.
using Tell = std::function<void(std::size_t done, std::size_t total)>;

/// A first map: the mean of matchings of k-means centres, in which known pairs take part.
[[nodiscard]] Matrix64 match_centres(const TwoSpaces& spaces, const KnownRows& known, std::uint64_t seed,
                                     const Tell& tell);

/// Improves a map by finding neighbours, and from those a map, again and again.
class Refiner {
 public:
  Refiner(const TwoSpaces& spaces, const KnownRows& known, std::uint64_t seed)
      : spaces_(spaces), known_(known), random_(seed) {}

  [[nodiscard]] Matrix64 refine(Matrix64 between, std::size_t soft_steps, const Tell& tell);

 private:
  [[nodiscard]] Matrix64 step(const Matrix64& between, double progress, bool soft);

  const TwoSpaces& spaces_;
  const KnownRows& known_;
  Random random_;
  std::vector<float> room_;
};

/// At most `most` rows, and no more than a share that leaves some out.
[[nodiscard]] Matrix draw_rows(const Matrix& rows, std::size_t most, Random& random);

/// first^T second / rows.
[[nodiscard]] Matrix64 mean_product(const Matrix& first, const Matrix& second);

/// The share of drawn rows, of the smaller side, that are the nearest of their nearest.
[[nodiscard]] double mutual_share(const TwoSpaces& spaces, const Matrix64& between);
[[nodiscard]] std::size_t count_mutual(const NearestOfAll& nearest);

/// The share of rows that both maps send to the same neighbour.
[[nodiscard]] double agreement(const TwoSpaces& spaces, const Matrix64& one, const Matrix64& other, std::uint64_t seed);

}  // namespace kedge
