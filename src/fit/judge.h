// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/rows.h"
#include "fit/attach.h"
#include "space/row_sketch.h"

#include <functional>

namespace kedge {

using Sketch = EigenRows<float>;
using FileRows = std::vector<std::int64_t>;

/// Where rows of a space are: its support, and others that may be in their place. A file, or the support alone.
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

/// Rows that find their partners this often, or are this much more alike than shuffled ones, are in their place. Where
/// they are not, other places are tried, which takes several times as long.
[[nodiscard]] bool is_certain(const RowCheck& check);

/// The block of rows that differs most from the rest, if one does; `rows` says where they stand in their file.
[[nodiscard]] std::optional<OddRows> find_odd_rows(LookedUp found, const FileRows& rows);

/// What was found, and if it is too little, whether that is so in a part of the file and which other order would do.
[[nodiscard]] RowCheck examine(const LookedUp& found, const CheckedRows& checked, std::span<const Sketch> others);

/// Checks that the rows of the sources belong together, and says how well their mixtures fit. Anchors without targets
/// get a sketch of the rows, for spaces to be attached.
void judge_sources(Learned& learned, const Recipe& made, const FitInput& input, std::span<const Statistics> statistics);

/// The same for a space that was attached to a bundle by these anchors of it: all that are known of its support rows.
void judge_attached(Attachment& attached, const Bundle& bundle, const LearnedAnchors& anchors, const Matrix64& support,
                    const Statistics& statistics, const RowPool& pool);

}  // namespace kedge
