// SPDX-License-Identifier: Apache-2.0
#include "results/tables_file.h"

#include "results/make_tables.h"

#include <kedge/version.h>
#include <nlohmann/json.hpp>

namespace kedge {
namespace {

using Json = nlohmann::ordered_json;

constexpr unsigned kFormatVersion = 1;

int sign_of(Better better) {
  return better == Better::larger ? 1 : (better == Better::smaller ? -1 : 0);
}

Json to_json(const std::optional<TableCell>& cell) {
  if (!cell) return {};
  return {{"text", cell->text},
          {"noise", cell->noise},
          {"best", cell->best},
          {"mean", cell->estimate.mean()},
          {"better", sign_of(cell->better)}};
}

Json to_json(const Table& table) {
  Json columns = Json::array();
  for (const Table::Column& column : table.columns) {
    columns.push_back({{"method", column.method}, {"metric", column.metric}});
  }
  Json rows = Json::array();
  for (const Table::Row& row : table.rows) {
    Json cells = Json::array();
    for (const auto& cell : row.cells) cells.push_back(to_json(cell));
    rows.push_back({{"labels", row.labels}, {"cells", std::move(cells)}});
  }
  return {{"kind", table.kind},          {"title", table.title},          {"caption", table.caption},
          {"labels", table.label_names}, {"columns", std::move(columns)}, {"rows", std::move(rows)}};
}

}  // namespace

std::string tables_json(const StitchResults& results) {
  Json tables = Json::array();
  for (const Table& table : make_tables(results)) tables.push_back(to_json(table));
  const Json file = {{"format", "kedge tables"},         {"format_version", kFormatVersion},
                     {"kedge_version", version()},       {"records", results.measurements.size()},
                     {"warnings", warnings_of(results)}, {"tables", std::move(tables)}};
  return file.dump(1) + "\n";
}

}  // namespace kedge
