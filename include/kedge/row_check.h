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

/// Whether row n of a space embeds the same input as row n of the others: how often a row is found by its partner,
/// among rows that the search was not fitted on. It is quick and knows less than the maps, so that it errs downwards.
struct RowCheck {
  std::size_t rows = 0;    ///< that were looked up
  std::size_t among = 0;   ///< how many rows each was looked up in; chance is 1 / among
  double found_first = 0;  ///< share of them that were found first
  double deviations = 0;   ///< by which pairs are more alike than shuffled ones, in standard deviations of the latter

  /// Another order of the space's rows, if one fits clearly better.
  enum class Remedy {
    none,
    shift,       ///< its row n belongs to row n - shift of the others
    sorted_ids,  ///< its rows are in the order of the sorted support ids, not in that of the ids
  };
  Remedy remedy = Remedy::none;
  std::int64_t shift = 0;
  double found_first_then = 0;

  /// Rows of the space's file that do not match, while the rest do.
  struct Block {
    RowRange rows;           ///< roughly; from 0 if they are the first, to RowRange::kEnd if they are the last
    double found_first = 0;  ///< share of the rows looked up there
  };
  std::optional<Block> block;          ///< what the remedy is for; none: for all rows
  std::optional<std::string> same_as;  ///< an earlier space that holds the very same rows

  /// Fewer support rows than this are not checked.
  static constexpr std::size_t kLeastRows = 50;

  /// No better than shuffled rows, or hardly.
  [[nodiscard]] bool near_chance() const;
  /// Whether all rows, or a block of them, do not match.
  [[nodiscard]] bool suspicious() const { return near_chance() || remedy != Remedy::none || block; }
};

/// Pairs of rows that the other pairs speak against, up to a small part of them: known while a bundle is made.
struct WrongPairs {
  std::string partner;             ///< whose rows the space's were compared with; empty: what a bundle knows of them
  double share = 0;                ///< of the pairs: an estimate
  std::size_t pairs = 0;           ///< that were compared
  std::vector<std::int64_t> rows;  ///< the support ids of those that look wrong
  bool left_out = false;           ///< whether the map was made without them

  /// Fewer than this share may be chance.
  static constexpr double kWorthTelling = 0.02;
};

/// Checks each of these spaces, as fit() and attach() check support rows; none if rows or spaces are too few to tell.
[[nodiscard]] std::vector<std::optional<RowCheck>> check_rows(std::span<const Space> spaces);

/// A share as people read it, such as "97.4 %"; only the whole is "100 %".
[[nodiscard]] std::string percent(double share);
/// A sentence about a suspicious space, if those it was compared with are right: what was found, and what to do.
[[nodiscard]] std::string explain(const RowCheck& check, const std::string& space);
/// A sentence about the wrong pairs of a space, with the first few named; empty if there are too few to tell of.
[[nodiscard]] std::string explain(const WrongPairs& wrong, const std::string& space);
/// Warnings about spaces that were compared with each other on so many rows: a sentence for each that differs from the
/// others, or one for all if nobody can tell which does.
[[nodiscard]] std::vector<std::string> explain(std::span<const std::optional<RowCheck>> checks,
                                               std::span<const std::string> spaces, std::size_t rows);
/// Warnings about one space that was compared with what a bundle knows of its rows.
[[nodiscard]] std::vector<std::string> explain(const std::optional<RowCheck>& check, const std::string& space,
                                               std::size_t rows);

}  // namespace kedge
