// SPDX-License-Identifier: Apache-2.0
#include "results/make_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace kedge {
namespace {

std::string heading(const Table::Column& column) {
  return column.metric.empty() ? column.method : column.method + " " + column.metric;
}

std::string markdown_text(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

std::string latex_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\textbackslash{}";
    } else if (c == '^' || c == '~') {
      result += fmt::format("\\{}{{}}", c);
    } else if (std::string_view("_&%#${}").find(c) != std::string_view::npos) {
      result += fmt::format("\\{}", c);
    } else {
      result += c;
    }
  }
  return result;
}

std::string markdown_cell(const std::optional<TableCell>& cell) {
  if (!cell) return "–";
  const std::string text = cell->noise.empty() ? cell->text : fmt::format("{} ± {}", cell->text, cell->noise);
  return cell->best ? "**" + text + "**" : text;
}

std::string latex_cell(const std::optional<TableCell>& cell) {
  if (!cell) return "--";
  const std::string text = cell->noise.empty() ? cell->text : fmt::format("{} \\pm {}", cell->text, cell->noise);
  return cell->best ? fmt::format("$\\mathbf{{{}}}$", text) : fmt::format("${}$", text);
}

std::string markdown(const Table& table) {
  std::string text = fmt::format("## {}\n\n{}\n\n|", table.title, table.caption);
  for (const std::string& name : table.label_names) text += fmt::format(" {} |", name);
  for (const auto& column : table.columns) text += fmt::format(" {} |", markdown_text(heading(column)));
  text += "\n|";
  for (std::size_t i = 0; i < table.label_names.size(); ++i) text += "---|";
  for (std::size_t i = 0; i < table.columns.size(); ++i) text += "---:|";
  for (const Table::Row& row : table.rows) {
    text += "\n|";
    for (const std::string& label : row.labels) text += fmt::format(" {} |", markdown_text(label));
    for (const auto& cell : row.cells) text += fmt::format(" {} |", markdown_cell(cell));
  }
  return text + "\n";
}

/// A label is written once for the rows it belongs to, and a rule parts those from the next.
std::string latex(const Table& table) {
  std::string text = fmt::format(
      "\\begin{{table}}[t]\n\\centering\n\\caption{{{}}}\n\\begin{{tabular}}{{{}{}}}\n\\toprule\n",
      latex_text(table.caption), std::string(table.label_names.size(), 'l'), std::string(table.columns.size(), 'c'));
  std::vector<std::string> header;
  for (const std::string& name : table.label_names) header.push_back(latex_text(name));
  for (const auto& column : table.columns) header.push_back(latex_text(heading(column)));
  text += fmt::format("{} \\\\\n\\midrule\n", fmt::join(header, " & "));
  std::string group;
  for (const Table::Row& row : table.rows) {
    const bool grouped = row.labels.size() == 2;
    const bool same = grouped && row.labels.front() == group;
    if (grouped && !same && !group.empty()) text += "\\midrule\n";
    group = row.labels.front();
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < row.labels.size(); ++i) {
      cells.push_back(i == 0 && same ? "" : latex_text(row.labels[i]));
    }
    for (const auto& cell : row.cells) cells.push_back(latex_cell(cell));
    text += fmt::format("{} \\\\\n", fmt::join(cells, " & "));
  }
  return text + "\\bottomrule\n\\end{tabular}\n\\end{table}\n";
}

}  // namespace

std::string markdown_tables(const StitchResults& results) {
  std::string text;
  for (const std::string& warning : warnings_of(results)) text += fmt::format("> {}\n", markdown_text(warning));
  for (const Table& table : make_tables(results)) text += (text.empty() ? "" : "\n") + markdown(table);
  return text;
}

std::string latex_tables(const StitchResults& results) {
  std::string text = "% needs \\usepackage{booktabs}\n";
  for (const std::string& warning : warnings_of(results)) text += fmt::format("% {}\n", warning);
  for (const Table& table : make_tables(results)) text += "\n" + latex(table);
  return text;
}

}  // namespace kedge
