// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/history.h"

#include "base/json.h"

#include <kedge/error.h>

#include <array>
#include <nlohmann/json.hpp>

namespace kedge {

std::string history_to_json(const std::vector<Losses>& history) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Losses& l : history) rows.push_back({l.total, l.symnce, l.coverage, l.orthogonality, l.length});
  return rows.dump();
}

std::vector<Losses> history_from_json(const std::string& text) {
  try {
    std::vector<Losses> history;
    for (const auto& row : parse_json(text, "its loss history is damaged: the text")) {
      const auto values = row.get<std::array<double, 5>>();
      history.push_back({values[0], values[1], values[2], values[3], values[4]});
    }
    return history;
  } catch (const nlohmann::json::exception&) {
    throw Error(Code::bad_file, "its loss history is damaged");
  }
}

}  // namespace kedge
