// SPDX-License-Identifier: Apache-2.0
#include "results/results_file.h"

#include "base/file_version.h"
#include "base/json.h"
#include "io/byte_source.h"
#include "io/output_file.h"
#include "results/tables_file.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/lab/results.h>
#include <kedge/version.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <deque>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <set>
#include <span>
#include <utility>

namespace kedge {
namespace {

using Json = nlohmann::ordered_json;

constexpr unsigned kFormatVersion = 1;
constexpr JsonLimits kLimits{.deepest = 16, .most_members = 10'000};
constexpr const char* kFormat = "kedge results";

Json number(std::optional<double> value) {
  return value && std::isfinite(*value) ? Json(*value) : Json();
}

Json count(std::size_t value) {
  return value == 0 ? Json() : Json(value);
}

/// A JSON number if the text is one, so that it can be plotted against.
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
               {"anchors", count(m.point.anchors)},
               {"support", count(m.point.support)},
               {"shrinkage", shrinkage_json(m.point.shrinkage)}};
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
  json["linear_f1"] = number(m.linear_f1);
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
  Json json = {{"method", run.method},
               {"sources", run.sources},
               {"seed", run.seed},
               {"anchors", count(run.point.anchors)},
               {"support", count(run.point.support)},
               {"shrinkage", shrinkage_json(run.point.shrinkage)},
               {"seconds", run.seconds},
               {"history", std::move(history)}};
  if (run.found_anchors > 0) json["found_anchors"] = run.found_anchors;
  return json;
}

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Code::bad_file, why);
}

double number_of(const Json& json, const std::string& key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nan("");
  if (!found->is_number()) refuse(fmt::format("'{}' is not a number", key));
  return found->get<double>();
}

/// A score from 0 to 1: F1, accuracy, recall or MRR.
double share_of(const Json& json, const std::string& key) {
  const double value = number_of(json, key);
  if (!(value >= 0 && value <= 1 + 1e-9)) refuse(fmt::format("'{}' is not between 0 and 1", key));
  return value;
}

std::uint64_t count_of(const Json& json, const char* key) {
  const Json& value = json.at(key);
  if (value.is_null()) return 0;
  if (!value.is_number_unsigned()) refuse(fmt::format("'{}' is not a whole number of 0 or more", key));
  return value.get<std::uint64_t>();
}

StitchPoint point_of(const Json& json) {
  const Json& shrinkage = json.at("shrinkage");
  std::string name;
  if (shrinkage.is_number()) name = fmt::format("{}", shrinkage.get<double>());
  if (shrinkage.is_string()) name = shrinkage.get<std::string>();
  return {count_of(json, "anchors"), count_of(json, "support"), name};
}

Measurement measurement_of(const Json& json) {
  Measurement m;
  m.method = to_string(parse_stitch_method(json.at("method").get<std::string>()));
  m.encoder = json.at("encoder");
  m.trained_on = json.at("trained_on");
  m.seed = count_of(json, "seed");
  m.point = point_of(json);
  if (!json.at("weighted_f1").is_null()) {
    m.labels = {share_of(json, "accuracy"), share_of(json, "weighted_f1"), share_of(json, "macro_f1")};
  }
  if (!json.at("mse").is_null()) {
    const double psnr = number_of(json, "psnr");
    m.targets = {number_of(json, "mse"), std::isnan(psnr) ? std::numeric_limits<double>::infinity() : psnr};
  }
  if (!json.at("rr_std").is_null()) m.rr_std = number_of(json, "rr_std");
  if (json.contains("linear_f1") && !json.at("linear_f1").is_null()) m.linear_f1 = share_of(json, "linear_f1");
  if (!json.at("mrr").is_null()) {
    Comparison pair;
    pair.mrr = share_of(json, "mrr");
    for (const std::size_t k : CompareOptions().recall_at) {
      pair.recall.push_back(share_of(json, fmt::format("recall@{}", k)));
    }
    pair.nmse = number_of(json, "nmse");
    pair.paired_cosine = number_of(json, "paired_cosine");
    pair.linear_cka = number_of(json, "linear_cka");
    m.pair = std::move(pair);
  }
  return m;
}

/// The resamples of each record, in the order of the records. Files of older versions have none.
void read_resamples(const Json& json, std::vector<Measurement>& measurements) {
  const auto found = json.find("resamples");
  if (found == json.end()) return;
  if (!found->is_array() || found->size() != measurements.size()) refuse("'resamples' are not one for each record");
  for (std::size_t i = 0; i < measurements.size(); ++i) {
    if (!(*found)[i].is_object()) refuse("one of its 'resamples' is not an object");
    for (const auto& [key, values] : (*found)[i].items()) {
      auto& kept = measurements[i].resampled[key];
      if (!values.is_array()) refuse(fmt::format("the resampled '{}' is not a list", key));
      for (const Json& value : values) {
        if (!value.is_number()) refuse(fmt::format("the resampled '{}' is not all numbers", key));
        kept.push_back(value.get<double>());
      }
    }
  }
}

/// Rounded to six digits, far below the noise.
Json resamples_of(const StitchResults& results) {
  Json all = Json::array();
  for (const Measurement& m : results.measurements) {
    Json one = Json::object();
    for (const auto& [key, values] : m.resampled) {
      Json list = Json::array();
      for (const double value : values) list.push_back(std::stod(fmt::format("{:.6g}", value)));
      one[key] = std::move(list);
    }
    all.push_back(std::move(one));
  }
  return all;
}

StitchRun run_of(const Json& json) {
  StitchRun run;
  run.method = json.at("method");
  run.sources = json.at("sources").get<std::vector<std::string>>();
  run.seed = count_of(json, "seed");
  run.point = point_of(json);
  if (json.contains("found_anchors")) run.found_anchors = count_of(json, "found_anchors");
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

/// One entry on each line: short, and still a file that a person or diff can read.
std::string lines_of(const Json& list) {
  std::string text;
  for (const Json& entry : list) text += fmt::format("{}\n  {}", text.empty() ? "" : ",", entry.dump());
  return fmt::format("[{}]", text);
}

std::string members_of(const Json& object) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    text += fmt::format("{} {}: {}", text.empty() ? "" : ",\n", Json(key).dump(), value.dump());
  }
  return text;
}

struct NamedText {
  const char* name;
  std::string text;
};

/// All files are complete before the first is renamed, so a full disk leaves the old ones, which belong together.
void write_all(const std::filesystem::path& folder, std::initializer_list<NamedText> files) {
  std::deque<io::OutputFile> written;
  for (const auto& [name, text] : files) written.emplace_back((folder / name).string()).append(text);
  for (io::OutputFile& file : written) file.finish(io::Durability::renamed);
}

std::string read(const std::filesystem::path& path) {
  const io::InputFile file(path.string());
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

/// A version as text; in the file it may be a number, a text or absent.
std::string version_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

Json records_of(const StitchResults& results) {
  Json records = Json::array();
  for (const Measurement& m : results.measurements) records.push_back(to_json(m));
  return records;
}

}  // namespace

std::string records_json(const StitchResults& results) {
  return lines_of(records_of(results));
}

void save_results(const StitchResults& results, const std::string& folder) {
  const Json records = records_of(results);
  std::set<StitchPoint> points;
  for (const Measurement& m : results.measurements) {
    if (m.point != StitchPoint()) points.insert(m.point);
  }
  Json runs = Json::array();
  for (const StitchRun& run : results.runs) runs.push_back(to_json(run));
  const Json head = {{"format", kFormat},
                     {"format_version", kFormatVersion},
                     {"kedge_version", version()},
                     {"command", points.size() > 1 ? "sweep" : "stitch"},
                     {"settings", Json::parse(results.settings)}};
  write_all(folder,
            {{"results.csv", csv_of(records)},
             {"figures.json", results.figures.empty() ? "{}" : results.figures},
             {"tables.json", tables_json(results)},
             {"tables.md", markdown_tables(results)},
             {"tables.tex", latex_tables(results)},
             {"results.json",
              fmt::format("{{\n{},\n \"records\": {},\n \"runs\": {},\n \"resamples\": {}\n}}\n", members_of(head),
                          lines_of(records), lines_of(runs), lines_of(resamples_of(results)))}});
}

StitchResults parse_results(std::string_view text) {
  try {
    const std::string problem = json_problem(text, kLimits);
    if (!problem.empty()) refuse("it " + problem + ", so it is cut short or has been changed");
    const Json json = Json::parse(text);
    if (!json.is_object() || version_of(json, "format") != kFormat) refuse("it is not a file of kedge results");
    const std::string newer =
        format_problem(version_of(json, "format_version"), kFormatVersion, version_of(json, "kedge_version"));
    if (!newer.empty()) refuse(newer);
    if (!json.at("settings").is_object()) refuse("its settings are missing");
    StitchResults results;
    results.settings = json.at("settings").dump();
    for (const Json& record : json.at("records")) results.measurements.push_back(measurement_of(record));
    for (const Json& run : json.at("runs")) results.runs.push_back(run_of(run));
    read_resamples(json, results.measurements);
    return results;
  } catch (const nlohmann::json::exception&) {
    refuse("it is cut short or has been changed");
  } catch (const Error& problem) {
    refuse(problem.text());  // an unknown name is a bad file here, not a bad argument
  }
}

StitchResults load_results(const std::string& folder) {
  const std::filesystem::path file = std::filesystem::path(folder) / "results.json";
  if (!std::filesystem::exists(file)) return {};
  try {
    StitchResults results = parse_results(read(file));
    const std::filesystem::path figures = file.parent_path() / "figures.json";
    // Damaged figures are made again; refusing the file would lose measurements.
    std::string drawn = std::filesystem::exists(figures) ? read(figures) : "";
    if (json_problem(drawn, kLimits).empty()) results.figures = std::move(drawn);
    return results;
  } catch (const Error& problem) {
    throw Error(Code::bad_file, fmt::format("{}: results of an earlier run cannot be read: {}; move the file away, "
                                            "give another folder, or start fresh and overwrite it",
                                            file.string(), problem.text()));
  }
}

}  // namespace kedge
