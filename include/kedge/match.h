// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/bundle.h>
#include <kedge/matrix.h>
#include <kedge/progress.h>
#include <kedge/space.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kedge {

struct MatchOptions {
  /// Rows known to embed the same input: a row number of the first file and one of the second, pair after pair, as
  /// pair_rows() takes them. From kDecidingPairs on, some are kept back to judge by.
  std::vector<std::int64_t> pairs;
  bool disjoint = false;   ///< the spaces hold different inputs: look for the rotation, and for no pairs
  bool force = false;      ///< give the pairs found even if the verdict is against them
  std::size_t runs = 8;    ///< at most; two that agree end the search
  std::uint64_t seed = 0;  ///< the same seed and number of threads give the same result

  static constexpr std::size_t kDecidingPairs = 10;
  static constexpr std::size_t kLeastRows = 200;        ///< of a space
  static constexpr std::size_t kLeastJudgedRows = 100;  ///< if known pairs decide
};

/// Whether the result may be trusted.
enum class MatchVerdict {
  matched,      ///< independent runs agree, or known pairs that were kept back are found
  disjoint,     ///< the rotation can be trusted, but few rows have their like in the other space: there are no pairs
  not_matched,  ///< runs disagree, or pairs kept back are not found
  made_worse,   ///< pairs kept back are found less often than by the known pairs alone, which are all there is to use
};

/// matched, disjoint, not-matched or made-worse.
[[nodiscard]] std::string_view to_string(MatchVerdict verdict);
/// Whether pairs or rotation are good for use: matched or disjoint.
[[nodiscard]] constexpr bool is_success(MatchVerdict verdict) {
  return verdict == MatchVerdict::matched || verdict == MatchVerdict::disjoint;
}

/// How known pairs that took no part are found among all rows drawn, from both sides.
struct KeptBack {
  std::size_t pairs = 0;
  double found_before = 0, found_after = 0;  ///< share that comes first: by the other known pairs alone, and matched
  double mrr_before = 0, mrr_after = 0;
};

/// x of the first space goes to weight (x - first_mean) + second_mean in the second.
struct SpaceRotation {
  std::vector<float> first_mean, second_mean;
  Matrix weight;  ///< dim of the second x dim of the first; its rank is 256 at most
};

struct Match {
  MatchVerdict verdict = MatchVerdict::not_matched;
  std::vector<std::int64_t> pairs;  ///< rows that are each other's nearest among all, as in the options; surest first
  std::vector<float> chances;       ///< of each pair: how likely it is right, 0 to 1
  double agreement = 0;             ///< share of rows that the two maps that agree best send to the same row
  double mutual = 0;                ///< share of rows drawn that are the nearest of their nearest
  std::size_t runs = 0;             ///< that were made
  std::optional<KeptBack> kept_back;
  SpaceRotation rotation;
  std::vector<std::string> warnings;  ///< sentences, such as about known pairs that contradict each other
};

/// Finds which rows of two spaces embed the same input, with a few known pairs or none. Reads all rows; learns from at
/// most 20,000 of each space, and memory does not grow beyond that.
/// Throws Error(Code::bad_argument) for a space given twice, too few rows, pairs of rows that are not
/// there or are repeated; Error(Code::bad_file) for rows that hold NaN or are all the same.
[[nodiscard]] Match match(const Space& first, const Space& second, const MatchOptions& options = {},
                          const Progress& progress = {});

/// The verdict in a sentence, with the numbers behind it and, if there is something to do about it, what.
[[nodiscard]] std::string describe(const Match& match);

/// The rotation as an adapter for the two spaces: what is left to keep if they hold different inputs. If there are
/// pairs, a fit of them is better.
[[nodiscard]] Bundle rotation_bundle(const Match& match, const Space& first, const Space& second);

}  // namespace kedge
