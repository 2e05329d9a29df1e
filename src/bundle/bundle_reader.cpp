// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/param.h"
#include "base/wording.h"
#include "bundle/bundle_check.h"
#include "io/tensor_file.h"
#include "regress/kernel_ridge.h"

#include <algorithm>
#include <limits>
#include <memory>

namespace kedge {
namespace {

using Json = nlohmann::json;

class BundleReader {
 public:
  explicit BundleReader(const io::ByteSource& file) : file_(file, "kedge bundle", kBundleFormat, "a bundle") {}

  Bundle read() const {
    std::optional<Bundle> bundle;
    file_.guard([&] {
      Recipe made = read_recipe();
      LearnedAnchors anchors = read_anchors(made.method);
      std::vector<Attachment> spaces = read_spaces(made);
      bundle.emplace(std::move(made), std::move(anchors), std::move(spaces));
    });
    return std::move(bundle).value();
  }

  RelativeMap read_map(std::string_view name) const {
    std::optional<RelativeMap> map;
    file_.guard([&] {
      const auto names = file_.json("spaces").get<std::vector<std::string>>();
      if (std::ranges::find(names, name) == names.end()) throw unknown_space(name, names);
      const Json how = file_.says("attached") ? file_.json("attached") : Json::object();
      map = read_own_map(std::string(name), parse_similarity(file_.text("similarity")),
                         how.empty() ? how : how.at(std::string(name)));
      const std::vector<std::size_t>& mixture = file_.shape("mixture", io::DType::f32, 2);
      require_anchors(*map, mixture[0]);
      require_kernel(map->space(), *map, mixture[1]);
    });
    return std::move(map).value();
  }

 private:
  Recipe read_recipe() const {
    Recipe made;
    made.kedge_version = file_.text("kedge_version");
    made.method = parse_method(file_.text("method"));
    made.similarity = parse_similarity(file_.text("similarity"));
    made.seed = file_.whole_number(file_.json("seed"));
    const Json options = file_.json("options");
    made.whitening.shrinkage = file_.number(options, "shrinkage", 0, 1);
    made.whitening.epsilon = file_.number(options, "epsilon", 0);
    made.rows = {file_.whole_number(options.at("rows").at(0)), file_.whole_number(options.at("rows").at(1))};
    read_later_options(made, options);
    if (auto* param = std::get_if<Param>(&made.method)) {
      const std::optional<std::size_t> keep = param->keep;
      *param = param_options_from_json(file_.text("param"));
      param->keep = keep;
      require_valid(*param);
    }
    made.sources = file_.json("sources").get<std::vector<std::string>>();
    return made;
  }

  /// What the first bundles did not say is as it was then, which is the default.
  void read_later_options(Recipe& made, const Json& options) const {
    const auto name = [&](const char* key, std::string_view otherwise) {
      return options.value(key, std::string(otherwise));
    };
    const auto count = [&](const char* key) { return options.contains(key) ? file_.whole_number(options[key]) : 0; };
    const auto positive = [&](const char* key, double otherwise) {
      return options.contains(key) ? file_.number(options, key, 0) : otherwise;
    };
    Consensus consensus;
    made.shrinkage_rule = parse_shrinkage_rule(name("shrinkage_rule", to_string(made.shrinkage_rule)));
    made.attach_by = parse_attach_by(name("attach", to_string(made.attach_by)));
    made.support_select = parse_support_select(name("support_select", to_string(made.support_select)));
    consensus.power = positive("power", consensus.power);
    Refinement& refinement = consensus.refinement;
    if (const std::size_t epochs = count("refine_epochs")) refinement.epochs = epochs;
    refinement.rate = positive("refine_rate", refinement.rate);
    refinement.tau = positive("refine_tau", refinement.tau);
    if (options.contains("refine_batch")) refinement.batch = count("refine_batch");
    if (options.contains("refine_patience")) refinement.patience = count("refine_patience");
    set_method_options(made.method, consensus, count("keep"));
  }

  static void set_method_options(Method& method, const Consensus& consensus, std::size_t keep) {
    const std::optional<std::size_t> kept = keep == 0 ? std::nullopt : std::optional(keep);
    if (auto* own = std::get_if<Consensus>(&method)) *own = consensus;
    if (auto* own = std::get_if<Adapter>(&method)) own->power = consensus.power;
    if (auto* own = std::get_if<Param>(&method)) own->keep = kept;
    if (auto* own = std::get_if<ChosenRows>(&method)) own->keep = kept;
  }

  LearnedAnchors read_anchors(const Method& method) const {
    LearnedAnchors anchors;
    anchors.mixture = file_.matrix("mixture");
    anchors.support_ids = file_.vector<std::int64_t>("support_ids");
    if (file_.has("targets")) anchors.targets = file_.matrix("targets");
    if (file_.has("sketch")) anchors.sketch = file_.matrix("sketch");
    if (file_.has("targets") && anchors.targets.cells().empty()) file_.refuse("its targets are empty");
    if (file_.has("sketch") && anchors.sketch.cells().empty()) file_.refuse("its sketch is empty");
    const std::string support_by = file_.json("options").value("support_by", std::string("row"));
    if (support_by != "row" && support_by != "id") {
      file_.refuse("its support is by '{}', expected row or id", support_by);
    }
    anchors.by_id = support_by == "id";
    if (std::holds_alternative<Param>(method)) anchors.history = history_from_json(file_.text("history"));
    if (file_.says("refine_losses")) {
      anchors.refine_losses = file_.json("refine_losses").get<std::vector<double>>();
    }
    return anchors;
  }

  std::vector<Attachment> read_spaces(const Recipe& made) const {
    const Json attached = file_.says("attached") ? file_.json("attached") : Json::object();
    const Json by_mixture = {{"by", "mixture"}, {"shrinkage", made.whitening.shrinkage}};
    std::vector<Attachment> spaces;
    for (const auto& name : file_.json("spaces").get<std::vector<std::string>>()) {
      require_space_name(name);
      spaces.push_back(read_space(made.similarity, name, attached.empty() ? by_mixture : attached.at(name)));
    }
    return spaces;
  }

  RidgeFit read_fit(const Json& how, const std::string& r2) const {
    return {file_.number(how, "strength", 0), file_.number(how, "whitening", 0, 1), file_.vector(r2),
            file_.number(how, "r2", std::numeric_limits<double>::lowest())};
  }

  RowCheck::Block read_block(const Json& from) const {
    RowCheck::Block block{{file_.whole_number(from.at("begin")), RowRange::kEnd},
                          file_.number(from, "found_first", 0, 1)};
    if (from.contains("end")) block.rows.end = file_.whole_number(from["end"]);
    return block;
  }

  RowCheck read_row_check(const Json& from) const {
    RowCheck check;
    check.rows = file_.whole_number(from.at("rows"));
    check.among = file_.whole_number(from.at("among"));
    check.found_first = file_.number(from, "found_first", 0, 1);
    check.deviations = file_.number(from, "deviations", std::numeric_limits<double>::lowest());
    if (from.contains("same_as")) require_space_name(check.same_as.emplace(from["same_as"].get<std::string>()));
    if (from.contains("block")) check.block = read_block(from["block"]);
    if (!from.contains("found_first_then")) return check;
    check.found_first_then = file_.number(from, "found_first_then", 0, 1);
    check.remedy = from.contains("shift") ? RowCheck::Remedy::shift : RowCheck::Remedy::sorted_ids;
    if (check.remedy == RowCheck::Remedy::shift) {
      const Json& shift = from["shift"];
      if (!shift.is_number_integer() || shift == 0) file_.refuse("its shift of rows is no whole number, or 0");
      check.shift = static_cast<std::int64_t>(file_.number(from, "shift", -1e9, 1e9));
    }
    return check;
  }

  /// Whoever wrote the first format knew no kernels, and other readers of it would compute other values.
  void require_format_with_kernels(const std::string& what) const {
    if (file_.version() > kFirstBundleFormat) return;
    file_.refuse("it has {}, but says that it has format version {}, in which there are none", what,
                 kFirstBundleFormat);
  }

  /// `prefix` is the name of a space and what its map is.
  std::optional<Kernel> read_kernel(const std::string& prefix, const Json& how) const {
    require_format_with_kernels("a kernel");
    Kernel kernel{file_.number(how, "width", kLeastWidth, kMostWidth),
                  {},
                  file_.matrix(prefix + "kernel_rows"),
                  file_.matrix(prefix + "kernel_coefficients")};
    if (file_.has(prefix + "kernel_whitener")) kernel.whitener = file_.matrix(prefix + "kernel_whitener");
    return kernel;
  }

  RelativeMap read_map(const std::string& space, Similarity similarity, const std::string& prefix,
                       std::optional<Kernel> kernel) const {
    return {space,
            similarity,
            file_.matrix(prefix + "weight"),
            file_.vector(prefix + "bias"),
            file_.vector(prefix + "mean"),
            std::move(kernel)};
  }
  RelativeMap read_own_map(const std::string& name, Similarity similarity, const Json& how) const {
    const std::string prefix = name + ".";
    return read_map(name, similarity, prefix,
                    how.contains("kernel") ? read_kernel(prefix, how["kernel"]) : no_kernel(prefix));
  }

  /// Without it such a map would be read as a line, and give other values.
  std::optional<Kernel> no_kernel(const std::string& prefix) const {
    for (const char* part : {"kernel_rows", "kernel_coefficients", "kernel_whitener"}) {
      if (file_.has(prefix + part)) file_.refuse("nothing is said of its tensor '{}{}'", prefix, part);
    }
    return {};
  }

  KernelFit read_kernel_numbers(const Json& how) const {
    return {file_.number(how, "width", kLeastWidth, kMostWidth),
            file_.number(how, "strength", 0),
            file_.number(how, "whitening", 0, 1),
            {},
            file_.number(how, "r2", -1, 1),
            file_.number(how, "error", 0)};
  }

  void require_anchors(const RelativeMap& map, std::size_t anchors) const {
    if (map.output_dim() == anchors) return;
    file_.refuse("it has {} anchors, but the map of '{}' has {}", anchors, map.space(), map.output_dim());
  }

  std::optional<AttachChoice> read_choice(const Json& how) const {
    if (!how.contains("choice")) return {};
    require_format_with_kernels("a choice between ridge and kernel");
    return AttachChoice{file_.number(how["choice"], "ridge_error", 0), file_.number(how["choice"], "kernel_error", 0)};
  }

  ByKernel read_by_kernel(Similarity similarity, const std::string& name, const Json& how) const {
    ByKernel made{read_kernel_numbers(how.at("kernel")), read_choice(how)};
    made.fit.r2 = file_.vector(name + ".r2");
    if (!how.contains("reverse")) return made;
    const Json& reverse = how["reverse"];
    const std::string prefix = name + ".reverse_";
    made.reverse = std::make_shared<RelativeMap>(
        read_map(reverse.at("space").get<std::string>(), similarity, prefix, read_kernel(prefix, reverse)));
    if (reverse.contains("strength")) made.reverse_fit = read_kernel_numbers(reverse);
    return made;
  }

  AttachedBy read_way(Similarity similarity, const std::string& name, const Json& how) const {
    const auto by = how.at("by").get<std::string>();
    if (by != "mixture" && by != "ridge" && by != "kernel" && by != "direct") {
      file_.refuse("'{}' is attached by '{}', which is no way to make a map", name, by);
    }
    if (how.contains("kernel") != (by == "kernel")) {
      file_.refuse("the map of '{}' was made by {}, which does not fit what is said of a kernel", name, by);
    }
    if (by == "ridge") return ByRidge{read_fit(how.at("ridge"), name + ".r2"), read_choice(how)};
    if (by == "kernel") return read_by_kernel(similarity, name, how);
    if (by == "direct") return Directly{};
    if (!how.contains("mixture")) return ByMixture{};
    return ByMixture{MixtureFit{file_.vector(name + ".r2"), file_.number(how["mixture"], "r2", -1, 1)}};
  }

  Attachment read_space(Similarity similarity, const std::string& name, const Json& how) const {
    Attachment space{std::make_shared<RelativeMap>(read_own_map(name, similarity, how)),
                     read_way(similarity, name, how), file_.number(how, "shrinkage", 0, 1)};
    if (space.reverse() == nullptr) (void)no_kernel(name + ".reverse_");
    if (how.contains("row_check")) space.row_check = read_row_check(how["row_check"]);
    if (how.contains("decoder")) {
      space.decoder =
          std::make_shared<Decoder>(Decoder{file_.matrix(name + ".decode_weight"), file_.vector(name + ".decode_bias"),
                                            read_fit(how["decoder"], name + ".decode_r2")});
    }
    if (file_.has(name + ".support")) {
      KeptRows kept{file_.matrix(name + ".support")};
      if (file_.has(name + ".support_places")) kept.places = file_.vector<std::int64_t>(name + ".support_places");
      space.kept = std::make_shared<KeptRows>(std::move(kept));
    }
    return space;
  }

  io::TensorFile file_;
};

}  // namespace

Bundle load_bundle(const std::string& path) {
  return BundleReader(io::InputFile(path)).read();
}

Bundle bundle_from_bytes(std::string_view bytes, const std::string& label) {
  return BundleReader(io::MemoryBytes(std::as_bytes(std::span(bytes)), label)).read();
}

std::shared_ptr<const RelativeMap> load_map(const std::string& path, std::string_view space) {
  return std::make_shared<RelativeMap>(BundleReader(io::InputFile(path)).read_map(space));
}

}  // namespace kedge
