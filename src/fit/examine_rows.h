// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/row_sketch.h"

#include <kedge/space.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kedge {

using Sketch = EigenRows<float>;
using FileRows = std::vector<std::int64_t>;

/// Where rows of a space can be had: those that are its support, and others that may be in their place. A file, or the
/// support rows alone.
struct RowPool {
  std::size_t rows = 0;
  /// Rows that nobody chose may hold NaN, which is no error here; a file that cannot be read is.
  std::function<Matrix64(std::span<const std::int64_t>)> gather;
  FileRows support;            ///< which of them is each support row
  bool support_alone = false;  ///< they are nothing but the support
};

[[nodiscard]] RowPool pool_of(const Space& space, std::span<const std::int64_t> support_ids);
/// The support rows, which must outlive it.
[[nodiscard]] RowPool pool_of(const Matrix64& support);

/// The rows of one space that are looked up in others.
struct CheckedRows {
  std::string space;
  RowPool pool;
  FileRows rows;           ///< which of the pool they are
  FileRows by_sorted_ids;  ///< those that someone who sorts the support ids would have there; often none
};

/// A part of a file, to its start or end if the block is the first or the last.
struct OddRows {
  RowRange rows;
  double contrast = 0;
};

[[nodiscard]] Matrix64 pick_rows(const Matrix64& rows, std::span<const std::size_t> positions);

/// Rows that find their partners this often, or are this much more alike than shuffled ones, are in their place. Where
/// they are not, other places are tried, which takes several times as long.
[[nodiscard]] bool is_certain(const RowCheck& check);

/// The block of rows that differs most from the rest, if one does; `rows` says where they stand in their file.
[[nodiscard]] std::optional<OddRows> find_odd_rows(LookedUp found, const FileRows& rows);

/// What was found, and if it is too little, whether that is so in a part of the file and which other order would do.
[[nodiscard]] RowCheck examine(const LookedUp& found, const CheckedRows& checked, std::span<const Sketch> others);

}  // namespace kedge
