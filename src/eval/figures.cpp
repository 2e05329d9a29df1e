// SPDX-License-Identifier: Apache-2.0
#include "eval/figures.h"

#include "backend/eigh.h"
#include "backend/products.h"
#include "base/eigen.h"

#include <kedge/error.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kedge {
namespace {

using Json = nlohmann::ordered_json;

/// The two directions that some rows vary in most.
class Plane {
 public:
  explicit Plane(const Matrix& rows) {
    const EigenRows<double> cells = as_eigen(rows.view()).cast<double>();
    mean_ = column_means(cells);
    const EigenRows<double> centred = cells.rowwise() - mean_;
    Matrix64 products(rows.cols(), rows.cols());
    set_product(products.view(), centred.transpose(), centred);
    const Eigenpairs top = eigh_largest(std::move(products), std::min<std::size_t>(2, rows.cols()));
    const auto vectors = as_eigen(top.vectors.view());
    axes_ = EigenRows<double>::Zero(2, vectors.cols());
    for (Eigen::Index i = 0; i < vectors.rows(); ++i) {
      axes_.row(i) = vectors.row(vectors.rows() - 1 - i);
      Eigen::Index largest = 0;
      axes_.row(i).cwiseAbs().maxCoeff(&largest);
      if (axes_(i, largest) < 0) axes_.row(i) *= -1;  // a sign that does not depend on the solver
    }
  }

  [[nodiscard]] Json points(const Matrix& rows) const {
    const EigenRows<double> cells = as_eigen(rows.view()).cast<double>();
    const EigenRows<double> seen = product(EigenRows<double>(cells.rowwise() - mean_), axes_.transpose());
    Json points = Json::array();
    for (Eigen::Index r = 0; r < seen.rows(); ++r) points.push_back({rounded(seen(r, 0)), rounded(seen(r, 1))});
    return points;
  }

 private:
  /// More digits than a plot shows, also of a cloud far from the origin.
  static double rounded(double value) {
    if (value == 0 || !std::isfinite(value)) return 0;
    const double scale = std::pow(10, 6 - std::ceil(std::log10(std::abs(value))));
    return std::round(value * scale) / scale;
  }

  Eigen::RowVectorXd mean_;
  EigenRows<double> axes_;
};

/// The mean cosine of the same row in two spaces, over all pairs of them. Each space's mean is taken off first: cosines
/// and distances are all of one sign, and would agree whatever they say.
double mean_centred_cosine(const std::vector<Matrix>& features) {
  std::vector<EigenRows<double>> centred;
  for (const Matrix& rows : features) {
    centred.emplace_back(as_eigen(rows.view()).cast<double>());
    centred.back().rowwise() -= column_means(centred.back());
  }
  double sum = 0;
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < centred.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j, ++pairs) {
      const auto& a = centred[i];
      const auto& b = centred[j];
      for (Eigen::Index r = 0; r < a.rows(); ++r) {
        const double lengths = a.row(r).norm() * b.row(r).norm();
        if (lengths > 0) sum += a.row(r).dot(b.row(r)) / lengths / static_cast<double>(a.rows());
      }
    }
  }
  return pairs == 0 ? 0 : sum / static_cast<double>(pairs);
}

Json pictures(const Matrix& rows) {
  Json result = Json::array();
  for (std::size_t r = 0; r < rows.rows(); ++r) {
    Json one = Json::array();
    for (const float value : rows.row(r)) one.push_back(std::round(value * 1000) / 1000);
    result.push_back(std::move(one));
  }
  return result;
}

}  // namespace

Figures::Figures(const StitchContext& context, const std::string& known)
    : context_(context), json_(Json::parse(known, nullptr, false)) {
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
    } else {  // how they are drawn is no matter of what was measured
      const auto& shape = context.data().target_shape;
      json_["reconstructions"]["shape"] = shape.empty() ? Json() : Json(shape);
    }
  }
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

Figures::Json Figures::panel(const std::vector<Matrix>& features) const {
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
    for (const auto& [key, value] : fresh.items()) {  // rows of another pair or number cannot stand beside these
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
  for (const Space& space : context_.data().spaces) {
    const RowRange test = context_.data().test;
    rows.push_back(space.with_rows({test.begin, std::min(test.end, test.begin + kShownRows)}).read_all());
    json_["raw"][space.name()] = Plane(rows.back()).points(rows.back());
    if (progress) progress({"drawing", rows.size(), context_.data().spaces.size(), ""});
  }
  json_["similarities"] = Json::array();
  for (const std::string_view name : similarity_names()) {
    try {
      Json added = {{"similarity", name}};
      added.update(panel(features_under(parse_similarity(name), rows, progress)));
      json_["similarities"].push_back(std::move(added));
    } catch (const Error& problem) {
      if (problem.code() == Code::failed) throw;  // an interrupt among others
    }
  }
}

std::vector<Matrix> Figures::features_under(Similarity similarity, const std::vector<Matrix>& rows,
                                            const Progress& progress) const {
  PlannedRun run;
  run.seed = context_.options().seeds.front();
  run.methods = {{StitchMethod::Anchors::random, similarity}};
  run.sources = {0};
  Bundle bundle = learn_anchors(context_, run, progress);
  attach_missing(context_, run, bundle);
  std::vector<Matrix> features;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    features.push_back(bundle.map(context_.data().spaces[i].name()).apply(rows[i].view()));
  }
  return features;
}

}  // namespace kedge
