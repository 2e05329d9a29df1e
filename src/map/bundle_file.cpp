// SPDX-License-Identifier: Apache-2.0
#include "io/mapped_file.h"
#include "io/safetensors.h"
#include "train/history.h"
#include "train/param_options.h"

#include <fmt/format.h>
#include <kedge/bundle.h>
#include <kedge/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace kedge {
namespace {

using Json = nlohmann::ordered_json;
using Tensors = std::vector<io::TensorBytes>;

constexpr int kFormatVersion = 1;

io::TensorBytes tensor(std::string name, const Matrix& matrix) {
  return {std::move(name), io::DType::f32, {matrix.rows(), matrix.cols()}, std::as_bytes(matrix.cells())};
}
io::TensorBytes tensor(std::string name, const std::vector<float>& values) {
  return {std::move(name), io::DType::f32, {values.size()}, std::as_bytes(std::span(values))};
}

Json describe(const Attachment& space) {
  Json json = {{"by", to_string(space.by)}, {"shrinkage", space.shrinkage}};
  const auto describe_fit = [](const RidgeFit& fit) {
    return Json{{"strength", fit.strength}, {"whitening", fit.whitening}, {"r2", fit.mean_r2}};
  };
  if (space.ridge) json["ridge"] = describe_fit(*space.ridge);
  if (space.decoder) json["decoder"] = describe_fit(space.decoder->fit);
  return json;
}

std::map<std::string, std::string> describe(const Bundle& bundle) {
  Json names = Json::array();
  Json attached = Json::object();
  for (const Attachment& space : bundle.spaces) {
    names.push_back(space.space());
    attached[space.space()] = describe(space);
  }
  const Json options = {{"shrinkage", bundle.whitening.shrinkage},
                        {"shrinkage_rule", to_string(bundle.shrinkage_rule)},
                        {"epsilon", bundle.whitening.epsilon},
                        {"attach", to_string(bundle.attach_by)},
                        {"power", bundle.consensus.power},
                        {"refine_epochs", bundle.consensus.refine_epochs},
                        {"refine_rate", bundle.consensus.refine_rate},
                        {"refine_tau", bundle.consensus.refine_tau},
                        {"support_select", to_string(bundle.support_select)},
                        {"keep", bundle.keep},
                        {"rows", {bundle.rows.begin, bundle.rows.end}}};
  std::map<std::string, std::string> metadata{{"format", "kedge bundle"},
                                              {"format_version", std::to_string(kFormatVersion)},
                                              {"kedge_version", bundle.kedge_version},
                                              {"method", std::string(to_string(bundle.method))},
                                              {"similarity", std::string(to_string(bundle.similarity))},
                                              {"seed", std::to_string(bundle.seed)},
                                              {"options", options.dump()},
                                              {"sources", Json(bundle.sources).dump()},
                                              {"spaces", names.dump()},
                                              {"attached", attached.dump()}};
  if (!bundle.refine_losses.empty()) metadata["refine_losses"] = Json(bundle.refine_losses).dump();
  if (bundle.method == Method::param) {
    metadata["param"] = to_json(bundle.param);
    metadata["history"] = history_to_json(bundle.history);
  }
  return metadata;
}

/// Views of the bundle, in the order of the file.
Tensors tensors_of(const Bundle& bundle) {
  Tensors tensors;
  tensors.push_back(
      {"support_ids", io::DType::i64, {bundle.support_ids.size()}, std::as_bytes(std::span(bundle.support_ids))});
  tensors.push_back(tensor("mixture", bundle.mixture));
  if (bundle.targets.rows() != 0) tensors.push_back(tensor("targets", bundle.targets));
  for (const Attachment& space : bundle.spaces) {
    const std::string& name = space.space();
    tensors.push_back(tensor(name + ".weight", space.map.weight()));
    tensors.push_back(tensor(name + ".bias", space.map.bias()));
    tensors.push_back(tensor(name + ".mean", space.map.mean()));
    if (space.ridge) tensors.push_back(tensor(name + ".r2", space.ridge->r2));
    if (!space.decoder) continue;
    tensors.push_back(tensor(name + ".decode_weight", space.decoder->weight));
    tensors.push_back(tensor(name + ".decode_bias", space.decoder->bias));
    tensors.push_back(tensor(name + ".decode_r2", space.decoder->fit.r2));
  }
  return tensors;
}

/// Reads the parts of a bundle out of bytes that may be hostile.
class BundleReader {
 public:
  BundleReader(std::span<const std::byte> bytes, const std::string& label)
      : bytes_(bytes), label_(label), info_(io::parse_safetensors(bytes, label)) {
    if (!info_.metadata.contains("format") || text("format") != "kedge bundle") {
      refuse("it is a safetensors file, but not a bundle written by 'kedge fit'");
    }
    const std::string format = text("format_version");
    if (format != std::to_string(kFormatVersion)) {
      refuse(fmt::format("it has bundle format {}, but this kedge reads format {}; use a newer kedge", format,
                         kFormatVersion));
    }
  }

  Bundle read() const {
    try {
      return read_parts();
    } catch (const Json::exception& problem) {
      refuse(fmt::format("its metadata is damaged: {}", problem.what()));
    } catch (const Error& problem) {
      // What would be a wrong argument elsewhere is a damaged file here; sentences of parts do not know the file.
      if (std::string_view(problem.what()).starts_with(label_ + ": ")) throw;
      refuse(problem.what());
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Code::bad_file, fmt::format("{}: {}", label_, what));
  }

  Bundle read_parts() const {
    Bundle bundle;
    bundle.kedge_version = text("kedge_version");
    bundle.method = parse_method(text("method"));
    bundle.similarity = parse_similarity(text("similarity"));
    bundle.seed = whole_number(Json::parse(text("seed")));
    const Json options = Json::parse(text("options"));
    bundle.whitening.shrinkage = options.at("shrinkage").get<double>();
    bundle.whitening.epsilon = options.at("epsilon").get<double>();
    read_later_options(bundle, options);
    bundle.rows = {whole_number(options.at("rows").at(0)), whole_number(options.at("rows").at(1))};
    if (bundle.method == Method::param) {
      bundle.param = param_options_from_json(text("param"));
      bundle.history = history_from_json(text("history"));
    }
    bundle.sources = Json::parse(text("sources")).get<std::vector<std::string>>();
    bundle.mixture = matrix("mixture");
    bundle.support_ids = integers("support_ids");
    if (has("targets")) bundle.targets = matrix("targets");
    require_consistent(bundle);
    std::set<std::string> seen;
    const Json attached = info_.metadata.contains("attached") ? Json::parse(text("attached")) : Json::object();
    const Json by_mixture = {{"by", "mixture"}, {"shrinkage", bundle.whitening.shrinkage}};
    for (const auto& name : Json::parse(text("spaces")).get<std::vector<std::string>>()) {
      require_space_name(name);
      if (!seen.insert(name).second) refuse(fmt::format("it names the space '{}' twice", name));
      bundle.spaces.push_back(read_space(bundle, name, attached.empty() ? by_mixture : attached.at(name)));
    }
    for (const std::string& source : bundle.sources) {
      if (!seen.contains(source)) refuse(fmt::format("it was learned from '{}', but has no map of it", source));
    }
    return bundle;
  }

  /// What the first bundles did not say is as it was then, which is the default.
  void read_later_options(Bundle& bundle, const Json& options) const {
    const auto name = [&](const char* key, std::string_view otherwise) {
      return options.value(key, std::string(otherwise));
    };
    const auto count = [&](const char* key) { return options.contains(key) ? whole_number(options[key]) : 0; };
    ConsensusOptions& consensus = bundle.consensus;
    bundle.shrinkage_rule = parse_shrinkage_rule(name("shrinkage_rule", to_string(bundle.shrinkage_rule)));
    bundle.attach_by = parse_attach_by(name("attach", to_string(bundle.attach_by)));
    bundle.support_select = parse_support_select(name("support_select", to_string(bundle.support_select)));
    bundle.keep = count("keep");
    consensus.power = options.value("power", consensus.power);
    consensus.refine_epochs = count("refine_epochs");
    consensus.refine_rate = options.value("refine_rate", consensus.refine_rate);
    consensus.refine_tau = options.value("refine_tau", consensus.refine_tau);
    if (!(consensus.power >= 0)) refuse("its power is out of range");
    if (info_.metadata.contains("refine_losses")) {
      bundle.refine_losses = Json::parse(text("refine_losses")).get<std::vector<double>>();
    }
  }

  RidgeFit read_fit(const Json& how, const std::string& r2) const {
    return {how.at("strength").get<double>(), how.at("whitening").get<double>(), vector(r2),
            how.at("r2").get<double>()};
  }

  Attachment read_space(const Bundle& bundle, const std::string& name, const Json& how) const {
    const std::size_t anchors = bundle.mixture.rows();
    Attachment space{
        {name, bundle.similarity, matrix(name + ".weight"), vector(name + ".bias"), vector(name + ".mean")},
        parse_attach_by(how.at("by").get<std::string>()),
        how.at("shrinkage").get<double>(),
        {},
        {}};
    if (space.map.output_dim() != anchors) {
      refuse(fmt::format("it has {} anchors, but the map of '{}' has {}", anchors, name, space.map.output_dim()));
    }
    if (how.contains("ridge")) {
      space.ridge = read_fit(how["ridge"], name + ".r2");
      if (space.ridge->r2.size() != anchors) refuse(fmt::format("'{}.r2' does not have a value per anchor", name));
    }
    if (how.contains("decoder")) {
      space.decoder = Decoder{matrix(name + ".decode_weight"), vector(name + ".decode_bias"),
                              read_fit(how["decoder"], name + ".decode_r2")};
      const std::size_t dim = space.map.input_dim();
      const Decoder& back = *space.decoder;
      if (back.weight.rows() != dim || back.weight.cols() != anchors || back.bias.size() != dim ||
          back.fit.r2.size() != dim) {
        refuse(fmt::format("the decoder of '{}' does not fit its map", name));
      }
    }
    return space;
  }

  /// What attach relies on.
  void require_consistent(const Bundle& bundle) const {
    if (bundle.mixture.cols() != bundle.support_ids.size()) {
      refuse(fmt::format("its mixture spans {} support rows, but it names {}", bundle.mixture.cols(),
                         bundle.support_ids.size()));
    }
    std::set<std::int64_t> ids;
    for (const std::int64_t id : bundle.support_ids) {
      if (id < 0 || !ids.insert(id).second) refuse(fmt::format("its support id {} is negative or repeated", id));
    }
    const Matrix& targets = bundle.targets;
    const bool regresses = bundle.similarity == Similarity::wip || is_adapter(bundle.method);
    if (has("targets") && !regresses) refuse("it has targets, which its similarity cannot have");
    if (has("targets") && (targets.rows() != bundle.mixture.cols() || targets.cols() != bundle.mixture.rows())) {
      refuse(fmt::format("its targets are {} x {}, but it has {} support rows and {} anchors", targets.rows(),
                         targets.cols(), bundle.mixture.cols(), bundle.mixture.rows()));
    }
    for (std::size_t r = 0; r < bundle.mixture.rows() && is_convex(bundle.method); ++r) {
      double sum = 0;
      for (const float weight : bundle.mixture.row(r))
        sum += weight < 0 ? std::numeric_limits<double>::infinity() : weight;
      if (!(std::abs(sum - 1) < 1e-3)) refuse(fmt::format("row {} of its mixture is not convex", r));
    }
    const auto& [shrinkage, epsilon] = bundle.whitening;
    if (!(shrinkage >= 0 && shrinkage <= 1 && epsilon >= 0)) refuse("its shrinkage or epsilon is out of range");
  }

  /// Converting any other number would be undefined, or wrap.
  std::uint64_t whole_number(const Json& value) const {
    if (!value.is_number_unsigned()) refuse("its metadata has something else where a whole number belongs");
    return value.get<std::uint64_t>();
  }

  bool has(const std::string& name) const { return info_.tensors.contains(name); }

  std::string text(const std::string& key) const {
    const auto found = info_.metadata.find(key);
    if (found == info_.metadata.end()) refuse(fmt::format("its metadata lacks '{}'", key));
    return found->second;
  }

  /// The array's bytes, after checking its type and number of dimensions.
  const io::ArrayInfo& array(const std::string& name, io::DType dtype, std::size_t dimensions) const {
    const io::ArrayInfo& found = info_.tensor(name, label_);
    if (found.dtype != dtype || found.shape.size() != dimensions) {
      refuse(fmt::format("its tensor '{}' should have {} dimension(s) of {}, found {} of {}", name, dimensions,
                         io::to_string(dtype), found.shape.size(), io::to_string(found.dtype)));
    }
    return found;
  }
  void floats(const io::ArrayInfo& from, const std::string& name, std::span<float> to) const {
    io::convert(bytes_.data() + from.offset, from.dtype, from.swapped, to);
    if (!std::ranges::all_of(to, [](float value) { return std::isfinite(value); })) {
      refuse(fmt::format("its tensor '{}' holds NaN or infinity", name));
    }
  }
  Matrix matrix(const std::string& name) const {
    const io::ArrayInfo& from = array(name, io::DType::f32, 2);
    Matrix to(from.shape[0], from.shape[1]);
    floats(from, name, to.cells());
    return to;
  }
  std::vector<float> vector(const std::string& name) const {
    const io::ArrayInfo& from = array(name, io::DType::f32, 1);
    std::vector<float> to(from.shape[0]);
    floats(from, name, to);
    return to;
  }
  std::vector<std::int64_t> integers(const std::string& name) const {
    const io::ArrayInfo& from = array(name, io::DType::i64, 1);
    std::vector<std::int64_t> to(from.shape[0]);
    io::convert(bytes_.data() + from.offset, from.dtype, from.swapped, std::span(to));
    return to;
  }

  std::span<const std::byte> bytes_;
  std::string label_;
  io::SafetensorsInfo info_;
};

}  // namespace

void save_bundle(const Bundle& bundle, const std::string& path) {
  io::save_safetensors(path, tensors_of(bundle), describe(bundle));
}

Bundle load_bundle(const std::string& path) {
  const io::MappedFile file(path);
  return BundleReader(file.bytes(), path).read();
}

std::string bundle_to_bytes(const Bundle& bundle) {
  return io::safetensors_bytes(tensors_of(bundle), describe(bundle));
}

Bundle bundle_from_bytes(std::string_view bytes, const std::string& label) {
  return BundleReader(std::as_bytes(std::span(bytes)), label).read();
}

}  // namespace kedge
