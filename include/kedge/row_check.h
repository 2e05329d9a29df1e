// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/space.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kedge {

/// Whether the rows of a space are the rows of the others: how often a row is found by its own partner, on rows kept
/// apart from those that taught how to look. It is quick and knows less than the maps do, so it errs downwards.
struct RowCheck {
  std::size_t rows = 0;    ///< that were looked up
  std::size_t among = 0;   ///< in how many each of them was sought; chance is 1 / among
  double found_first = 0;  ///< share of them that were found first
  double deviations = 0;   ///< how far pairs are more alike than shuffled ones, in standard deviations of the latter

  /// Another order of the space's rows that fits clearly better, where there is one.
  enum class Remedy {
    none,
    shift,       ///< its row n belongs to row n - shift of the others
    sorted_ids,  ///< they stand in the order of the sorted support ids instead of the order of the ids
  };
  Remedy remedy = Remedy::none;
  std::int64_t shift = 0;
  double found_first_then = 0;

  /// Rows of the space's file that do not match, where the rest of them do.
  struct Block {
    RowRange rows;           ///< roughly; from 0 where they are the first, to RowRange::kEnd where they are the last
    double found_first = 0;  ///< share of those looked up there
  };
  std::optional<Block> block;  ///< what the remedy is for; all rows where there is none
  std::string same_as;         ///< an earlier space that holds the very same rows; mostly empty

  /// Fewer support rows than this cannot tell, and are not checked.
  static constexpr std::size_t kLeastRows = 50;

  /// No better than shuffled rows, or hardly.
  [[nodiscard]] bool near_chance() const;
  /// Rows that are not those of the others, all of them or a block.
  [[nodiscard]] bool suspicious() const { return near_chance() || remedy != Remedy::none || block; }
};

/// Of each of these spaces, on their rows; none where there are too few rows or spaces to tell. fit() and attach() do
/// the same on the support.
[[nodiscard]] std::vector<std::optional<RowCheck>> check_rows(std::span<const Space> spaces);

/// A share as people read it, such as "97.4 %"; only the whole is "100 %".
[[nodiscard]] std::string percent(double share);
/// What to tell someone whose space is suspicious, if those it was compared with are right: what was found, and what to
/// do.
[[nodiscard]] std::string explain(const RowCheck& check, const std::string& space);
/// The same for spaces that were compared with each other on so many rows: a sentence for each that differs from the
/// others, or one for all where nobody can tell which does; and what else is worth a warning.
[[nodiscard]] std::vector<std::string> explain(std::span<const std::optional<RowCheck>> checks,
                                               std::span<const std::string> spaces, std::size_t rows);
/// The same for one space that was compared with what a bundle knows of its rows.
[[nodiscard]] std::vector<std::string> explain(const std::optional<RowCheck>& check, const std::string& space,
                                               std::size_t rows);

}  // namespace kedge
