// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/param.h"
#include "base/json.h"
#include "base/wording.h"

#include <array>
#include <cmath>
#include <type_traits>

namespace kedge {
namespace {

constexpr Names<CoverageRows, 2> kCoverageRowsNames{"coverage rows", {"batch", "all"}};

/// The one list of names the options have in files.
template <class Options, class Visit>
void visit_fields(Options& o, const Visit& visit) {
  visit("epochs", o.epochs);
  visit("batch", o.batch);
  visit("learning_rate", o.learning_rate);
  visit("weight_decay", o.weight_decay);
  visit("beta1", o.beta1);
  visit("beta2", o.beta2);
  visit("adam_epsilon", o.adam_epsilon);
  visit("temperature", o.temperature);
  visit("weight_symnce", o.weight_symnce);
  visit("tau_symnce", o.tau_symnce);
  visit("weight_coverage", o.weight_coverage);
  visit("tau_coverage", o.tau_coverage);
  visit("weight_orthogonality", o.weight_orthogonality);
  visit("weight_length", o.weight_length);
  visit("coverage_chunk", o.coverage_chunk);
}

}  // namespace

std::string_view to_string(CoverageRows rows) {
  return kCoverageRowsNames.of(rows);
}
CoverageRows parse_coverage_rows(std::string_view name) {
  return kCoverageRowsNames.parse(name);
}
std::vector<std::string_view> coverage_rows_names() {
  return kCoverageRowsNames.all();
}

std::string to_json(const Param& options) {
  nlohmann::ordered_json json;
  visit_fields(options, [&](const char* name, const auto& value) { json[name] = value; });
  json["coverage_rows"] = to_string(options.coverage_rows);
  return json.dump();
}

Param param_options_from_json(const std::string& text) {
  Param options;
  try {
    const auto json = parse_json(text, "its training options are damaged: the text");
    visit_fields(options, [&](const char* name, auto& value) {
      const auto& found = json.at(name);
      const bool good =
          std::is_integral_v<std::decay_t<decltype(value)>> ? found.is_number_unsigned() : found.is_number();
      if (!good) refuse_file("its training option '{}' is not a proper number", name);
      found.get_to(value);
    });
    options.coverage_rows = parse_coverage_rows(json.at("coverage_rows").get<std::string>());
  } catch (const nlohmann::json::exception&) {
    refuse_file("its training options are damaged");
  }
  return options;
}

void require_valid(const Param& o) {
  const auto require = [](bool good, const std::string& name, double value, const std::string& expected) {
    if (!good) refuse("{} is {}, expected {}", name, value, expected);
  };
  const auto require_positive = [&](const std::string& name, double value) {
    require(value > 0 && std::isfinite(value), name, value, "a number above 0");
  };
  const auto require_not_negative = [&](const std::string& name, double value) {
    require(value >= 0 && std::isfinite(value), name, value, "a number of 0 or more");
  };
  const auto require_share = [&](const std::string& name, double value) {
    require(value >= 0 && value < 1, name, value, "a number from 0 to below 1");
  };
  require(o.batch >= 1, "batch", static_cast<double>(o.batch), "1 or more");
  require(o.coverage_chunk >= 1, "coverage chunk", static_cast<double>(o.coverage_chunk), "1 or more");
  require_positive("learning rate", o.learning_rate);
  require_not_negative("weight decay", o.weight_decay);
  require_share("beta1", o.beta1);
  require_share("beta2", o.beta2);
  require_positive("adam epsilon", o.adam_epsilon);
  require_positive("temperature", o.temperature);
  require_positive(option_words("tau-coverage"), o.tau_coverage);
  require(o.tau_symnce >= static_cast<double>(Backend::kLeastTau) && std::isfinite(o.tau_symnce),
          option_words("tau-symnce"), o.tau_symnce,
          fmt::format("{} or more, so that its exponentials stay in float32", Backend::kLeastTau));
  require_not_negative(option_words("weight-symnce"), o.weight_symnce);
  require_not_negative(option_words("weight-coverage"), o.weight_coverage);
  require_not_negative(option_words("weight-orthogonality"), o.weight_orthogonality);
  require_not_negative(option_words("weight-length"), o.weight_length);
}

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
    refuse_file("its loss history is damaged");
  }
}

}  // namespace kedge
