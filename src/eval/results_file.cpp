// SPDX-License-Identifier: Apache-2.0
#include "io/output_file.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/stitch.h>
#include <kedge/version.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace kedge {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 1;
constexpr const char* kFormat = "kedge results";

Json number(std::optional<double> value) {
  return value && std::isfinite(*value) ? Json(*value) : Json();
}

Json count(std::size_t value) {
  return value == 0 ? Json() : Json(value);
}

/// A number where it is one, so that it can be plotted against.
Json shrinkage_json(const std::string& name) {
  if (name.empty()) return {};
  Json value = Json::parse(name, nullptr, false);
  return value.is_number() ? value : Json(name);
}

Json to_json(const Measurement& m) {
  Json json = {{"method", m.method},
               {"encoder", m.encoder},
               {"trained_on", m.trained_on},
               {"zero_shot", m.zero_shot()},
               {"seed", m.seed},
               {"anchors", count(m.anchors)},
               {"support", count(m.support)},
               {"shrinkage", shrinkage_json(m.shrinkage)}};
  const auto label = [&](auto member) { return m.labels ? number((*m.labels).*member) : Json(); };
  json["weighted_f1"] = label(&Classification::weighted_f1);
  json["accuracy"] = label(&Classification::accuracy);
  json["macro_f1"] = label(&Classification::macro_f1);
  const auto pair = [&](auto member) { return m.pair ? number((*m.pair).*member) : Json(); };
  json["mrr"] = pair(&Comparison::mrr);
  const CompareOptions what;
  for (std::size_t i = 0; i < what.recall_at.size(); ++i) {
    json[fmt::format("recall@{}", what.recall_at[i])] = m.pair ? number(m.pair->recall.at(i)) : Json();
  }
  json["nmse"] = pair(&Comparison::nmse);
  json["rr_std"] = number(m.rr_std);
  json["paired_cosine"] = pair(&Comparison::paired_cosine);
  json["linear_cka"] = pair(&Comparison::linear_cka);
  json["mse"] = m.targets ? number(m.targets->mse) : Json();
  json["psnr"] = m.targets ? number(m.targets->psnr) : Json();
  return json;
}

Json to_json(const StitchRun& run) {
  Json history = Json::array();
  for (const Losses& l : run.history) {
    history.push_back({{"total", l.total},
                       {"symnce", l.symnce},
                       {"coverage", l.coverage},
                       {"orthogonality", l.orthogonality},
                       {"length", l.length}});
  }
  return {
      {"method", run.method},          {"sources", run.sources},        {"seed", run.seed},
      {"anchors", count(run.anchors)}, {"support", count(run.support)}, {"shrinkage", shrinkage_json(run.shrinkage)},
      {"seconds", run.seconds},        {"history", std::move(history)}};
}

double value_of(const Json& json, const std::string& key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? std::nan("") : found->get<double>();
}

std::size_t count_of(const Json& json, const char* key) {
  return json.at(key).is_null() ? 0 : json.at(key).get<std::size_t>();
}

std::string shrinkage_of(const Json& json) {
  const Json& value = json.at("shrinkage");
  if (value.is_null()) return "";
  return value.is_number() ? fmt::format("{}", value.get<double>()) : value.get<std::string>();
}

Measurement measurement_of(const Json& json) {
  Measurement m;
  m.method = json.at("method");
  m.encoder = json.at("encoder");
  m.trained_on = json.at("trained_on");
  m.seed = json.at("seed");
  m.anchors = count_of(json, "anchors");
  m.support = count_of(json, "support");
  m.shrinkage = shrinkage_of(json);
  if (!json.at("weighted_f1").is_null()) {
    m.labels = {json.at("accuracy"), json.at("weighted_f1"), json.at("macro_f1")};
  }
  if (!json.at("mse").is_null()) {
    const double psnr = value_of(json, "psnr");
    m.targets = {json.at("mse"), std::isnan(psnr) ? std::numeric_limits<double>::infinity() : psnr};
  }
  if (!json.at("rr_std").is_null()) m.rr_std = json.at("rr_std").get<double>();
  if (!json.at("mrr").is_null()) {
    Comparison pair;
    pair.mrr = json.at("mrr");
    for (const std::size_t k : CompareOptions().recall_at) {
      pair.recall.push_back(json.at(fmt::format("recall@{}", k)).get<double>());
    }
    pair.nmse = value_of(json, "nmse");
    pair.paired_cosine = value_of(json, "paired_cosine");
    pair.linear_cka = value_of(json, "linear_cka");
    m.pair = std::move(pair);
  }
  return m;
}

StitchRun run_of(const Json& json) {
  StitchRun run;
  run.method = json.at("method");
  run.sources = json.at("sources").get<std::vector<std::string>>();
  run.seed = json.at("seed");
  run.anchors = count_of(json, "anchors");
  run.support = count_of(json, "support");
  run.shrinkage = shrinkage_of(json);
  run.seconds = json.at("seconds");
  for (const Json& l : json.at("history")) {
    run.history.push_back({l.at("total"), l.at("symnce"), l.at("coverage"), l.at("orthogonality"), l.at("length")});
  }
  return run;
}

std::string csv_field(const Json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  const auto& text = value.get_ref<const std::string&>();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string csv_of(const Json& records) {
  std::string text;
  for (const Json& record : records) {
    std::string header;
    std::string line;
    for (const auto& [key, value] : record.items()) {
      header += (header.empty() ? "" : ",") + key;
      line += (line.empty() ? "" : ",") + csv_field(value);
    }
    if (text.empty()) text = header + "\n";
    text += line + "\n";
  }
  return text;
}

void write(const std::filesystem::path& path, std::string_view text) {
  io::OutputFile file(path.string());
  file.append(text);
  file.finish(io::Durability::renamed);
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

void save_results(const StitchResults& results, const std::string& folder) {
  const std::filesystem::path out(folder);
  Json records = Json::array();
  bool swept = false;
  for (const Measurement& m : results.measurements) {
    records.push_back(to_json(m));
    const auto& first = results.measurements.front();
    swept = swept || (m.anchors != 0 && first.anchors != 0 &&
                      (m.anchors != first.anchors || m.support != first.support || m.shrinkage != first.shrinkage));
  }
  Json runs = Json::array();
  for (const StitchRun& run : results.runs) runs.push_back(to_json(run));
  write(out / "results.csv", csv_of(records));
  const Json json = {{"format", kFormat},
                     {"format_version", kFormatVersion},
                     {"kedge_version", version()},
                     {"command", swept ? "sweep" : "stitch"},
                     {"settings", Json::parse(results.settings)},
                     {"records", std::move(records)},
                     {"runs", std::move(runs)}};
  write(out / "figures.json", results.figures.empty() ? "{}" : results.figures);
  write(out / "tables.md", markdown_tables(results));
  write(out / "tables.tex", latex_tables(results));
  write(out / "results.json", json.dump(1) + "\n");
}

StitchResults load_results(const std::string& folder) {
  const std::filesystem::path file = std::filesystem::path(folder) / "results.json";
  StitchResults results;
  if (!std::filesystem::exists(file)) return results;
  try {
    const Json json = Json::parse(read(file));
    if (json.at("format") != kFormat) throw Error(Code::bad_file, "it is no file of kedge results");
    if (json.at("format_version").get<int>() > kFormatVersion) {
      throw Error(Code::bad_file, fmt::format("it has format version {}, this kedge knows up to {}",
                                              json.at("format_version").get<int>(), kFormatVersion));
    }
    results.settings = json.at("settings").dump();
    for (const Json& record : json.at("records")) results.measurements.push_back(measurement_of(record));
    for (const Json& run : json.at("runs")) results.runs.push_back(run_of(run));
    const std::string figures = read(file.parent_path() / "figures.json");
    if (Json::accept(figures)) results.figures = figures;
  } catch (const std::exception& problem) {
    throw Error(Code::bad_file,
                fmt::format("{}: results of an earlier run cannot be read ({}); move it away, or give another folder",
                            file.string(), problem.what()));
  }
  return results;
}

}  // namespace kedge
