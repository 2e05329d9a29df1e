// SPDX-License-Identifier: Apache-2.0
#include "stitch/stitch_settings.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/options/lists.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <variant>

namespace kedge {
namespace {

using Json = nlohmann::ordered_json;

/// FNV-1a, 64 bits.
class Checksum {
 public:
  template <class T>
  void add(std::span<const T> values) {
    for (const std::byte byte : std::as_bytes(values)) {
      sum_ = (sum_ ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3U;
    }
  }
  [[nodiscard]] std::string text() const { return fmt::format("{:016x}", sum_); }

 private:
  std::uint64_t sum_ = 0xcbf29ce484222325U;
};

std::string fingerprint(const RowSource& source) {
  constexpr std::size_t kRows = 4096;
  Checksum checksum;
  checksum.add(std::span<const std::size_t>(std::vector{source.rows(), source.cols()}));
  Matrix row(1, source.cols());
  const std::size_t count = std::min(kRows, source.rows());
  for (std::size_t i = 0; i < count; ++i) {
    source.read(i * source.rows() / count, row.view());
    checksum.add(std::span<const float>(row.row(0)));
  }
  return checksum.text();
}

template <class T>
std::string fingerprint(const std::vector<T>& values) {
  Checksum checksum;
  checksum.add(std::span<const T>(values));
  return checksum.text();
}

/// Every measurement says these itself, or they change no number.
const std::set<std::string_view> kNotSettings{
    "method",    "similarity",     "anchors",    "support",          "keep",   "seed",
    "shrinkage", "coverage-chunk", "checkpoint", "checkpoint-every", "resume", "keep-rows"};
/// Results of earlier versions do not say these, which then are as by default.
const std::set<std::string_view> kLater{"effort", "kernel-width", "kernel-strength", "kernel-whitening", "robust"};

Json fit_settings(FitArguments options) {
  FitArguments defaults;
  const std::vector<Option> given = options_of(options), otherwise = options_of(defaults);
  Json json;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const OptionValue value = value_of(given[i]);
    const bool said = !kLater.contains(given[i].name) || value != value_of(otherwise[i]);
    if (kNotSettings.contains(given[i].name) || !said) continue;
    json[keyword_of(given[i])] = std::visit([](const auto& own) { return Json(own); }, value);
  }
  if (!options.attach_by) json["attach"] = nullptr;
  if (options.device == Device::cpu) json.erase("precision");
  json["support_ids"] = options.support_ids.empty() ? Json() : Json(fingerprint(options.support_ids));
  return json;
}

Json head_settings(const HeadOptions& o) {
  // Ridge and linear make the same head for targets, so their results can be in one folder.
  const HeadKind kind = o.kind == HeadKind::ridge ? HeadKind::linear : o.kind;
  return {{"kind", to_string(kind)}, {"epochs", o.epochs ? Json(*o.epochs) : Json("auto")},
          {"batch", o.batch},        {"hidden", o.hidden.value_or(0)},
          {"lr", o.learning_rate},   {"weight_decay", o.weight_decay},
          {"dropout", o.dropout},    {"l2", o.l2}};
}

std::string space_difference(const Json& known, const Json& now) {
  const auto named = [](const Json& list, const Json& name) {
    return std::find_if(list.begin(), list.end(), [&](const Json& s) { return s.value("name", Json()) == name; });
  };
  for (const Json& space : now) {
    const auto old = named(known, space.at("name"));
    if (old == known.end()) return fmt::format("the space {} is new", space.at("name").dump());
    if (*old != space) return fmt::format("the embeddings of {} have changed", space.at("name").dump());
  }
  for (const Json& space : known) {
    if (named(now, space.value("name", Json())) == now.end()) {
      return fmt::format("the space {} is missing", space.value("name", Json()).dump());
    }
  }
  return known == now ? "" : "the spaces are in a different order";
}

/// The first setting that differs. The shape of targets is ignored: it changes no number.
std::string difference(const Json& known, const Json& now, const std::string& path) {
  if (path == "spaces" && known.is_array()) return space_difference(known, now);
  if (path == "targets.shape") return "";
  if (path.ends_with("fingerprint") && known != now) {
    return fmt::format("the {} have changed", path.substr(0, path.find('.')));
  }
  if (known.is_object() && now.is_object()) {
    for (const auto& [key, value] : now.items()) {
      const std::string inner = path.empty() ? key : fmt::format("{}.{}", path, key);
      const std::string found = known.contains(key) ? difference(known.at(key), value, inner) : inner + " is new";
      if (!found.empty()) return found;
    }
    return "";
  }
  if (known.is_object() || now.is_object()) {
    return fmt::format("there {} {}", now.is_object() ? "were no" : "are no", path);
  }
  return known == now ? "" : fmt::format("{} was {} and is now {}", path, known.dump(), now.dump());
}

}  // namespace

std::string settings_of(const StitchData& data, const StitchOptions& options) {
  Json json;
  json["spaces"] = Json::array();
  for (const Space& space : data.spaces) {
    json["spaces"].push_back(
        {{"name", space.name()}, {"dim", space.dim()}, {"fingerprint", fingerprint(space.source())}});
  }
  json["train"] = {data.train.begin, data.train.end};
  json["test"] = {data.test.begin, data.test.end};
  const auto name_ids = [&](const char* key, const RowIds& rows) {
    if (!rows.ids.empty()) json[key] = {{"rows", rows.ids.size()}, {"fingerprint", fingerprint(rows.ids)}};
  };
  name_ids("train_ids", data.train_ids);
  name_ids("test_ids", data.test_ids);
  json["labels"] = nullptr;
  if (!data.labels.empty()) {
    const std::vector<std::int64_t>& ids = data.train_ids.ids;
    std::set<std::int64_t> classes;
    for (const std::int64_t id : ids) classes.insert(data.labels[static_cast<std::size_t>(id)]);
    if (ids.empty()) {
      classes.insert(data.labels.begin() + static_cast<std::ptrdiff_t>(data.train.begin),
                     data.labels.begin() + static_cast<std::ptrdiff_t>(data.train.end));
    }
    json["labels"] = {{"classes", classes.size()}, {"fingerprint", fingerprint(data.labels)}};
  }
  json["targets"] = nullptr;
  if (data.targets) {
    json["targets"] = {{"dim", data.targets->cols()},
                       {"shape", data.target_shape.empty() ? Json() : Json(data.target_shape)},
                       {"fingerprint", fingerprint(*data.targets)}};
  }
  json["head"] = head_settings(options.head);
  json["fit"] = fit_settings(options.points.front());
  return json.dump();
}

/// In older files, 0 epochs means a fixed number: 9 for a classifier and 40 for a decoder. "auto" means until nothing
/// improves.
Json with_epochs(Json settings) {
  const bool said = settings.contains("head") && settings["head"].value("epochs", Json()) == 0;
  const bool classifies = !settings.value("labels", Json()).is_null();
  const bool decodes = !settings.value("targets", Json()).is_null();
  if (!said || (classifies && decodes)) return settings;
  constexpr std::size_t kClassifier = 9, kDecoder = 40;
  settings["head"]["epochs"] = decodes ? kDecoder : kClassifier;
  return settings;
}

void require_same_settings(const std::string& known, const std::string& now) {
  std::string found;
  try {
    found = difference(with_epochs(Json::parse(known)), Json::parse(now), "");
  } catch (const Json::exception&) {
    throw Error(Code::bad_file, "the folder's results have damaged settings; give another folder, or start fresh");
  }
  if (found.empty()) return;
  throw Error(
      Code::bad_argument,
      fmt::format("the folder holds results for different settings: {}; give another folder, or start fresh", found));
}

}  // namespace kedge
