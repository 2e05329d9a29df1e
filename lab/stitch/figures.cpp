// SPDX-License-Identifier: Apache-2.0
#include "stitch/figures.h"

#include "stitch/plane.h"

#include <kedge/error.h>
#include <kedge/metrics.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kedge {
namespace {

using Json = nlohmann::ordered_json;

Json pictures(const Matrix& rows) {
  Json result = Json::array();
  for (std::size_t r = 0; r < rows.rows(); ++r) {
    Json one = Json::array();
    for (const float value : rows.row(r)) one.push_back(std::round(value * 1000) / 1000);
    result.push_back(std::move(one));
  }
  return result;
}

/// How often the same row comes first when it is looked up from one space in another, over all pairs of them.
double found_first(const std::vector<Matrix>& features, const Progress& progress) {
  std::size_t found = 0, lookups = 0;
  for (const Matrix& from : features) {
    for (const Matrix& to : features) {
      if (&from == &to) continue;
      const std::vector<std::size_t> ranks = retrieval_ranks(from.view(), to.view(), Device::cpu, progress);
      found += static_cast<std::size_t>(std::ranges::count(ranks, 1U));
      lookups += ranks.size();
    }
  }
  return static_cast<double>(found) / static_cast<double>(lookups);
}

}  // namespace

Figures::Figures(const StitchContext& context, const std::string& known)
    : context_(context), owned_(std::make_unique<Json>(Json::parse(known, nullptr, false))), json_(*owned_) {
  if (!json_.is_object()) json_ = Json::object();
  const auto is_list = [](const Json& value, const char* key) {
    return value.is_array() && std::ranges::all_of(value, [&](const Json& entry) {
             return entry.is_object() && entry.contains(key) && entry.at(key).is_string();
           });
  };
  if (json_.contains("relative") && !is_list(json_.at("relative"), "method")) json_.erase("relative");
  if (json_.contains("similarities") && !is_list(json_.at("similarities"), "similarity")) json_.erase("similarities");
  if (json_.contains("raw") && !json_.at("raw").is_object()) json_.erase("raw");
  if (json_.contains("reconstructions")) {
    const Json& decoded = json_.at("reconstructions");
    if (!decoded.is_object() || !decoded.value("methods", Json()).is_object()) {
      json_.erase("reconstructions");
    } else {  // the shape of a drawing may change between runs
      const auto& shape = context.data().target_shape;
      json_["reconstructions"]["shape"] = shape.empty() ? Json() : Json(shape);
    }
  }
}

Figures::~Figures() = default;

std::string Figures::text() const {
  return json_.dump();
}

bool Figures::has(const std::string& method) const {
  const Json none = Json::array();
  const Json& panels = json_.contains("relative") ? json_.at("relative") : none;
  const auto same = [&](const Json& panel) { return panel.at("method") == method; };
  const bool drawn = method == "absolute" || std::ranges::any_of(panels, same);
  if (!context_.has_targets() || context_.options().samples == 0) return drawn;
  if (!drawn || !json_.contains("reconstructions")) return false;
  const Json& decoded = json_.at("reconstructions");
  const std::size_t count = std::min(context_.options().samples, context_.test_targets().rows());
  return decoded.at("methods").contains(method) && decoded.value("original", Json()).size() == count;
}

nlohmann::ordered_json Figures::panel(const std::vector<Matrix>& features) const {
  const Plane plane(features.front());
  Json points = Json::object();
  for (std::size_t i = 0; i < features.size(); ++i) {
    points[context_.data().spaces[i].name()] = plane.points(features[i]);
  }
  return {{"points", std::move(points)}, {"centred_cosine", mean_centred_cosine(features)}};
}

void Figures::add(std::span<const ShownFeatures> shown, const PlannedRun& run) {
  for (const ShownFeatures& one : shown) {
    if (!one.features.empty()) {
      Json& all = json_["relative"];
      if (!all.is_array()) all = Json::array();
      std::erase_if(all.get_ref<Json::array_t&>(),
                    [&](const Json& old) { return old.value("method", "") == one.method; });
      Json added = {{"method", one.method}, {"held_out", nullptr}, {"seed", run.seed}};
      if (one.held_out) added["held_out"] = *one.held_out;
      added.update(panel(one.features));
      all.push_back(std::move(added));
    }
    if (one.decoded.rows() == 0) continue;
    const auto& names = context_.data().spaces;
    Matrix original(one.decoded.rows(), one.decoded.cols());
    as_eigen(original.view()) = as_eigen(context_.test_targets().view().middle_rows(0, original.rows()));
    Json fresh = {{"shape", context_.data().target_shape.empty() ? Json() : Json(context_.data().target_shape)},
                  {"trained_on", names[run.shown_source].name()},
                  {"encoder", names[run.shown_encoder].name()},
                  {"original", pictures(original)}};
    Json& decoded = json_["reconstructions"];
    if (decoded.is_null()) decoded = Json::object();
    for (const auto& [key, value] : fresh.items()) {  // pictures of another pair or of other rows go
      if (decoded.value(key, Json()) != value) decoded["methods"] = Json::object();
    }
    decoded.update(fresh);
    decoded["methods"][one.method] = pictures(one.decoded);
  }
  put_in_order();
}

void Figures::put_in_order() {
  std::vector<std::string> methods;
  for (const StitchMethod& method : context_.options().methods) methods.push_back(to_string(method));
  const auto place = [&](const std::string& method) {
    return std::pair(std::find(methods.begin(), methods.end(), method) - methods.begin(), method);
  };
  Json drawn = json_.value("relative", Json::array());
  std::stable_sort(drawn.begin(), drawn.end(), [&](const Json& a, const Json& b) {
    return place(a.value("method", "")) < place(b.value("method", ""));
  });
  Json decoded = json_.value("reconstructions", Json());
  if (decoded.is_object()) {
    std::vector<std::pair<std::string, Json>> pictures;
    for (const auto& [method, rows] : decoded["methods"].items()) pictures.emplace_back(method, rows);
    std::stable_sort(pictures.begin(), pictures.end(),
                     [&](const auto& a, const auto& b) { return place(a.first) < place(b.first); });
    decoded["methods"] = Json::object();
    for (auto& [method, rows] : pictures) decoded["methods"][method] = std::move(rows);
  }
  for (auto& [key, value] : {std::pair("relative", &drawn), std::pair("reconstructions", &decoded)}) {
    json_.erase(key);
    if (!value->empty()) json_[key] = std::move(*value);
  }
}

void Figures::add_geometry(const Progress& progress) {
  if (json_.contains("similarities") && json_.contains("raw")) return;
  json_["labels"] = nullptr;
  if (context_.has_labels()) {
    const auto labels = context_.test_labels();
    json_["labels"] = Json(labels.first(std::min(kShownRows, labels.size())));
  }
  std::vector<Matrix> rows;
  for (std::size_t i = 0; i < context_.data().spaces.size(); ++i) {
    const Space& space = context_.test(i);
    rows.emplace_back(std::min(space.rows(), kShownRows), space.dim());
    space.read(0, rows.back().view());
    json_["raw"][space.name()] = Plane(rows.back()).points(rows.back());
    if (progress) progress({"drawing", rows.size(), context_.data().spaces.size(), ""});
  }
  json_["similarities"] = Json::array();
  for (const std::string_view name : similarity_names()) {
    try {
      const std::vector<Matrix> features = features_under(parse_similarity(name), rows, progress);
      Json added = {{"similarity", name}};
      added.update(panel(features));
      if (features.size() > 1) added["found_first"] = found_first(features, progress);
      json_["similarities"].push_back(std::move(added));
    } catch (const Error& problem) {
      if (problem.code() == Code::failed) throw;  // such as an interrupt
    }
  }
}

std::vector<Matrix> Figures::features_under(Similarity similarity, const std::vector<Matrix>& rows,
                                            const Progress& progress) const {
  PlannedRun run;
  run.seed = context_.options().seeds.front();
  run.methods = {{StitchMethod::Anchors::random, similarity}};
  run.sources = {0};
  const Bundle bundle = attach_all(context_, run, run.methods.front(), learn_anchors(context_, run, progress));
  std::vector<Matrix> features;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    features.push_back(bundle.map(context_.data().spaces[i].name())->apply(rows[i].view()));
  }
  return features;
}

}  // namespace kedge
