// SPDX-License-Identifier: Apache-2.0
#include "map/bundle_reader.h"

#include "base/file_version.h"
#include "base/json.h"
#include "io/safetensors.h"
#include "space/row_sketch.h"
#include "param/history.h"
#include "param/param_options.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/version.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace kedge {
namespace {

using Json = nlohmann::json;

class BundleReader {
 public:
  explicit BundleReader(const io::ByteSource& file)
      : file_(file), label_(file.label()), info_(io::parse_safetensors(file)) {
    if (!info_.metadata.contains("format") || text("format") != "kedge bundle") {
      refuse("it is a safetensors file, but not a bundle of kedge");
    }
    const auto written_by = info_.metadata.find("kedge_version");
    const std::string problem = format_problem(text("format_version"), kBundleFormat,
                                               written_by == info_.metadata.end() ? "" : written_by->second);
    if (!problem.empty()) refuse(problem);
  }

  Bundle read() const {
    try {
      return read_parts();
    } catch (const Json::exception& problem) {
      const std::string_view words = problem.what();  // "[json.exception.type_error.302] type must be ..."
      refuse(fmt::format("its metadata is damaged: {}", words.substr(words.find(']') + 2)));
    } catch (const Error& problem) {
      // What would be a wrong argument elsewhere is a damaged file here; sentences of parts do not know the file.
      if (std::string_view(problem.what()).starts_with(printable(label_ + ": "))) throw;
      refuse(problem.what() + writer_if_other());
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Code::bad_file, fmt::format("{}: {}", label_, what));
  }

  /// A name that is not known may be one that a later version has.
  std::string writer_if_other() const {
    const std::string written_by = text("kedge_version");
    if (!is_version(written_by) || written_by == version()) return "";
    return fmt::format(" (it was written by kedge {}, this is {})", written_by, version());
  }

  Bundle read_parts() const {
    Bundle bundle;
    bundle.kedge_version = text("kedge_version");
    if (!is_version(bundle.kedge_version)) refuse(fmt::format("'{}' is not a version of kedge", bundle.kedge_version));
    bundle.method = parse_method(text("method"));
    bundle.similarity = parse_similarity(text("similarity"));
    bundle.seed = whole_number(json("seed"));
    read_options(bundle);
    if (bundle.method == Method::param) {
      bundle.param = param_options_from_json(text("param"));
      require_valid(bundle.param);
      bundle.history = history_from_json(text("history"));
    }
    bundle.sources = json("sources").get<std::vector<std::string>>();
    bundle.mixture = matrix("mixture");
    bundle.support_ids = integers("support_ids");
    if (has("targets")) bundle.targets = matrix("targets");
    if (has("sketch")) bundle.sketch = matrix("sketch");
    require_consistent(bundle);
    read_spaces(bundle);
    return bundle;
  }

  void read_options(Bundle& bundle) const {
    const Json options = json("options");
    bundle.whitening.shrinkage = number(options, "shrinkage", 0, 1);
    bundle.whitening.epsilon = number(options, "epsilon", 0);
    bundle.rows = {whole_number(options.at("rows").at(0)), whole_number(options.at("rows").at(1))};
    if (bundle.rows.begin >= bundle.rows.end) {
      refuse(
          fmt::format("it was learned from rows {}:{}, which is an empty range", bundle.rows.begin, bundle.rows.end));
    }
    read_later_options(bundle, options);
  }

  /// What the first bundles did not say is as it was then, which is the default.
  void read_later_options(Bundle& bundle, const Json& options) const {
    const auto name = [&](const char* key, std::string_view otherwise) {
      return options.value(key, std::string(otherwise));
    };
    const auto count = [&](const char* key) { return options.contains(key) ? whole_number(options[key]) : 0; };
    const auto positive = [&](const char* key, double otherwise) {
      return options.contains(key) ? number(options, key, 0) : otherwise;
    };
    ConsensusOptions& consensus = bundle.consensus;
    bundle.shrinkage_rule = parse_shrinkage_rule(name("shrinkage_rule", to_string(bundle.shrinkage_rule)));
    bundle.attach_by = parse_attach_by(name("attach", to_string(bundle.attach_by)));
    bundle.support_select = parse_support_select(name("support_select", to_string(bundle.support_select)));
    bundle.keep = count("keep");
    consensus.power = positive("power", consensus.power);
    consensus.refine_epochs = count("refine_epochs");
    consensus.refine_rate = positive("refine_rate", consensus.refine_rate);
    consensus.refine_tau = positive("refine_tau", consensus.refine_tau);
    if (info_.metadata.contains("refine_losses")) {
      bundle.refine_losses = json("refine_losses").get<std::vector<double>>();
    }
  }

  void read_spaces(Bundle& bundle) const {
    std::set<std::string> seen;
    const Json attached = info_.metadata.contains("attached") ? json("attached") : Json::object();
    const Json by_mixture = {{"by", "mixture"}, {"shrinkage", bundle.whitening.shrinkage}};
    for (const auto& name : json("spaces").get<std::vector<std::string>>()) {
      require_space_name(name);
      if (!seen.insert(name).second) refuse(fmt::format("it names the space '{}' twice", name));
      bundle.spaces.push_back(read_space(bundle, name, attached.empty() ? by_mixture : attached.at(name)));
    }
    for (const std::string& source : bundle.sources) {
      if (!seen.contains(source)) refuse(fmt::format("it was learned from '{}', but has no map for it", source));
    }
  }

  RidgeFit read_fit(const Json& how, const std::string& r2) const {
    return {number(how, "strength", 0), number(how, "whitening", 0, 1), vector(r2),
            number(how, "r2", std::numeric_limits<double>::lowest())};
  }

  RowCheck read_row_check(const Json& from) const {
    constexpr double kAny = std::numeric_limits<double>::max();
    RowCheck check;
    check.rows = whole_number(from.at("rows"));
    check.among = whole_number(from.at("among"));
    check.found_first = number(from, "found_first", 0, 1);
    check.deviations = number(from, "deviations", -kAny);
    if (check.among == 0 || check.among > check.rows) refuse("its check of rows does not add up");
    if (!from.contains("found_first_then")) return check;
    check.found_first_then = number(from, "found_first_then", 0, 1);
    check.remedy = from.contains("shift") ? RowCheck::Remedy::shift : RowCheck::Remedy::sorted_ids;
    if (check.remedy == RowCheck::Remedy::shift) {
      const Json& shift = from["shift"];
      if (!shift.is_number_integer() || shift == 0) refuse("its shift of rows is no whole number, or 0");
      check.shift = static_cast<std::int64_t>(number(from, "shift", -1e9, 1e9));
    }
    return check;
  }

  Attachment read_space(const Bundle& bundle, const std::string& name, const Json& how) const {
    const std::size_t anchors = bundle.mixture.rows();
    Attachment space{
        {name, bundle.similarity, matrix(name + ".weight"), vector(name + ".bias"), vector(name + ".mean")},
        parse_attach_by(how.at("by").get<std::string>()),
        number(how, "shrinkage", 0, 1)};
    if (space.map.output_dim() != anchors) {
      refuse(fmt::format("it has {} anchors, but the map of '{}' has {}", anchors, name, space.map.output_dim()));
    }
    if (how.contains("ridge")) {
      space.ridge = read_fit(how["ridge"], name + ".r2");
      if (space.ridge->r2.size() != anchors) refuse(fmt::format("'{}.r2' does not have a value per anchor", name));
    }
    if (how.contains("mixture")) {
      space.mixture = MixtureFit{vector(name + ".r2"), number(how["mixture"], "r2", -1, 1)};
      if (space.ridge || space.mixture->r2.size() != anchors) {
        refuse(fmt::format("'{}.r2' does not have a value per anchor", name));
      }
    }
    if (how.contains("row_check")) space.row_check = read_row_check(how["row_check"]);
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
    const Matrix& mixture = bundle.mixture;
    if (mixture.cols() != bundle.support_ids.size()) {
      refuse(
          fmt::format("its mixture spans {} support rows, but it names {}", mixture.cols(), bundle.support_ids.size()));
    }
    if (mixture.rows() == 0 || mixture.cols() == 0) {
      refuse(fmt::format("its mixture is {} x {}, which is empty", mixture.rows(), mixture.cols()));
    }
    require_support(bundle);
    const Matrix& targets = bundle.targets;
    const bool regresses = bundle.similarity == Similarity::wip || is_adapter(bundle.method);
    if (has("targets") && !regresses) refuse("it has targets, which its similarity cannot have");
    if (has("targets") && (targets.rows() != mixture.cols() || targets.cols() != mixture.rows())) {
      refuse(fmt::format("its targets are {} x {}, but it has {} support rows and {} anchors", targets.rows(),
                         targets.cols(), mixture.cols(), mixture.rows()));
    }
    const std::size_t sketched = bundle.sketch.rows();
    if (has("sketch") && (bundle.sketch.cols() == 0 || sketched != checked_positions(mixture.cols()).size())) {
      refuse(fmt::format("its sketch has {} x {} values, which does not fit its {} support rows", sketched,
                         bundle.sketch.cols(), mixture.cols()));
    }
    for (std::size_t r = 0; r < mixture.rows() && is_convex(bundle.method); ++r) {
      double sum = 0;
      for (const float weight : mixture.row(r)) sum += weight < 0 ? std::numeric_limits<double>::infinity() : weight;
      if (!(std::abs(sum - 1) < 1e-3)) refuse(fmt::format("row {} of its mixture is not convex", r));
    }
  }

  void require_support(const Bundle& bundle) const {
    std::set<std::int64_t> ids;
    for (const std::int64_t id : bundle.support_ids) {
      if (id < 0 || !ids.insert(id).second) refuse(fmt::format("its support id {} is negative or repeated", id));
      const auto row = static_cast<std::size_t>(id);
      if (row < bundle.rows.begin || row >= bundle.rows.end) {
        refuse(fmt::format("its support id {} is not among the rows {}:{} it was learned from", id, bundle.rows.begin,
                           bundle.rows.end));
      }
    }
  }

  /// Converting any other number would be undefined, or wrap.
  std::uint64_t whole_number(const Json& value) const {
    if (!value.is_number_unsigned()) refuse("its metadata has something other than a whole number where one belongs");
    return value.get<std::uint64_t>();
  }

  double number(const Json& of, const char* name, double least,
                double most = std::numeric_limits<double>::max()) const {
    const auto value = of.at(name).get<double>();
    if (!(value >= least && value <= most)) refuse(fmt::format("its {} is {}, which is out of range", name, value));
    return value;
  }

  bool has(const std::string& name) const { return info_.tensors.contains(name); }

  const std::string& text(const std::string& key) const {
    const auto found = info_.metadata.find(key);
    if (found == info_.metadata.end()) refuse(fmt::format("its metadata lacks '{}'", key));
    return found->second;
  }

  Json json(const std::string& key) const {
    return parse_json(text(key), fmt::format("its metadata is damaged: '{}'", key));
  }

  /// The array's place, after checking its type and number of dimensions.
  const io::ArrayInfo& array(const std::string& name, io::DType dtype, std::size_t dimensions) const {
    const io::ArrayInfo& found = info_.tensor(name, label_);
    if (found.dtype != dtype || found.shape.size() != dimensions) {
      refuse(fmt::format("its tensor '{}' should have {} dimension(s) of {}, found {} of {}", name, dimensions,
                         io::to_string(dtype), found.shape.size(), io::to_string(found.dtype)));
    }
    return found;
  }
  void floats(const io::ArrayInfo& from, const std::string& name, std::span<float> to) const {
    io::read_values(file_, from, 0, to);
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
    io::read_values(file_, from, 0, std::span(to));
    return to;
  }

  const io::ByteSource& file_;
  const std::string& label_;
  io::SafetensorsInfo info_;
};

}  // namespace

Bundle read_bundle(const io::ByteSource& file) {
  return BundleReader(file).read();
}

}  // namespace kedge
