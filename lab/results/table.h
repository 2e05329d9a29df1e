// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stitch/resample.h"

#include <kedge/lab/results.h>

#include <optional>
#include <string>
#include <vector>

namespace kedge {

struct TableCell {
  Estimate estimate;
  std::string text;   ///< the mean as it is shown
  std::string noise;  ///< half of its 95 % interval; empty if unknown
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
  };
  std::vector<Row> rows;
};

/// A number as tables show it: what is below the largest possible value is not rounded up to it.
[[nodiscard]] std::string shown(double value, int digits, double most);

/// The tables that the measurements allow: heads, decoders and retrieval by pair, then metrics by method; for a sweep
/// metrics by point instead.
[[nodiscard]] std::vector<Table> make_tables(const StitchResults& results);

}  // namespace kedge
