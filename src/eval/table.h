// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/stitch.h>

#include <optional>
#include <string>
#include <vector>

namespace kedge {

/// A mean over seeds and, where there are several, their standard deviation.
struct TableCell {
  double mean = 0;
  std::optional<double> std;
  bool best = false;
};

/// A table before it is written in some language.
struct Table {
  std::string title, caption;
  std::vector<std::string> label_names;  ///< of the columns that name a row
  std::vector<std::string> columns;
  struct Row {
    std::vector<std::string> labels;
    std::vector<std::optional<TableCell>> cells;
    int digits = 1;
  };
  std::vector<Row> rows;
};

/// The tables that the measurements allow: heads, decoders and retrieval by pair, then metrics by method; for a sweep
/// metrics by point instead.
[[nodiscard]] std::vector<Table> make_tables(const StitchResults& results);

}  // namespace kedge
