// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "results/aggregate.h"

#include <optional>
#include <string>
#include <vector>

namespace kedge {

struct TableCell {
  Estimate estimate;
  Better better = Better::neither;
  std::string text;   ///< the mean as it is shown
  std::string noise;  ///< half of its 95 % interval; empty if unknown
  bool best = false;
};

/// A table, before it is written as Markdown, LaTeX or JSON.
struct Table {
  std::string kind;  ///< heads, decoders, retrieval, means or sweep
  std::string title, caption;
  std::vector<std::string> label_names;  ///< of the columns that name a row
  struct Column {
    std::string method;
    std::string metric;  ///< empty if each row has its own, or the table has only one
  };
  std::vector<Column> columns;
  struct Row {
    std::vector<std::string> labels;
    std::vector<std::optional<TableCell>> cells;
  };
  std::vector<Row> rows;
};

/// The point of a sweep that tables of single pairs show: most anchors, then most support, then the shrinkage nearest
/// to 0.15.
[[nodiscard]] StitchPoint reference_point(const StitchResults& results);

/// The tables that the measurements allow: heads, decoders and retrieval by pair, then metrics by method; for a sweep
/// all at its reference point, and before them metrics by point.
[[nodiscard]] std::vector<Table> make_tables(const StitchResults& results);

}  // namespace kedge
