// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/param.h"
#include "bundle/bundle_check.h"
#include "io/outputs.h"
#include "io/safetensors.h"

#include <fmt/format.h>
#include <kedge/bundle.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace kedge {
namespace {

using Json = nlohmann::ordered_json;
using Tensors = std::vector<io::TensorBytes>;

using io::tensor;
io::TensorBytes tensor(std::string name, const std::vector<float>& values) {
  return {std::move(name), io::DType::f32, {values.size()}, std::as_bytes(std::span(values))};
}

Json describe(const RowCheck& check) {
  Json json = {{"rows", check.rows},
               {"among", check.among},
               {"found_first", check.found_first},
               {"deviations", check.deviations}};
  if (check.same_as) json["same_as"] = *check.same_as;
  if (check.block) {
    const auto& [rows, found_first] = *check.block;
    json["block"] = {{"begin", rows.begin}, {"found_first", found_first}};
    if (rows.end != RowRange::kEnd) json["block"]["end"] = rows.end;
  }
  if (check.remedy == RowCheck::Remedy::none) return json;
  json["found_first_then"] = check.found_first_then;
  if (check.remedy == RowCheck::Remedy::shift) json["shift"] = check.shift;
  return json;
}

/// Without R^2 of every output, which is a tensor.
Json describe(const RidgeFit& fit) {
  return {{"strength", fit.strength}, {"whitening", fit.whitening}, {"r2", fit.mean_r2}};
}

Json describe(const KernelFit& fit) {
  return {{"width", fit.width},
          {"strength", fit.strength},
          {"whitening", fit.whitening},
          {"r2", fit.mean_r2},
          {"error", fit.error}};
}

Json describe(const Attachment& space) {
  Json json = {{"by", to_string(space.by)}, {"shrinkage", space.shrinkage}};
  if (const RidgeFit* fit = space.ridge()) json["ridge"] = describe(*fit);
  if (space.decoder) json["decoder"] = describe(space.decoder->fit);
  if (const MixtureFit* fit = space.mixture()) json["mixture"] = {{"r2", fit->mean_r2}};
  if (space.row_check) json["row_check"] = describe(*space.row_check);
  if (const KernelFit* fit = space.kernel()) json["kernel"] = describe(*fit);
  if (const AttachChoice* choice = space.choice()) {
    json["choice"] = {{"ridge_error", choice->ridge_error}, {"kernel_error", choice->kernel_error}};
  }
  if (const RelativeMap* reverse = space.reverse()) {
    json["reverse"] = {{"space", reverse->space()}, {"width", reverse->kernel().value().width}};
    if (const KernelFit* fit = space.reverse_fit()) json["reverse"].update(describe(*fit));
  }
  return json;
}

/// What a reader of the first format could not do without.
bool needs_kernels(const Bundle& bundle) {
  const bool made = std::ranges::any_of(
      bundle.spaces(), [](const Attachment& space) { return space.kernel() != nullptr || space.choice() != nullptr; });
  return made || is_adapter(bundle.made().method, Pairwise::kernel) || bundle.made().attach_by == AttachBy::kernel ||
         bundle.made().attach_by == AttachBy::automatic;
}

/// The file has these options for every method.
Consensus consensus_of(const Method& method) {
  if (const auto* consensus = std::get_if<Consensus>(&method)) return *consensus;
  const auto* adapter = std::get_if<Adapter>(&method);
  return adapter == nullptr ? Consensus{} : Consensus{adapter->power};
}

std::map<std::string, std::string> describe(const Bundle& bundle) {
  const Recipe& made = bundle.made();
  const LearnedAnchors& anchors = bundle.anchors();
  Json names = Json::array();
  Json attached = Json::object();
  for (const Attachment& space : bundle.spaces()) {
    names.push_back(space.space());
    attached[space.space()] = describe(space);
  }
  const Consensus consensus = consensus_of(made.method);
  const Json options = {{"shrinkage", made.whitening.shrinkage},
                        {"shrinkage_rule", to_string(made.shrinkage_rule)},
                        {"epsilon", made.whitening.epsilon},
                        {"attach", to_string(made.attach_by)},
                        {"power", consensus.power},
                        {"refine_epochs", consensus.refinement.epochs.value_or(0)},
                        {"refine_rate", consensus.refinement.rate},
                        {"refine_tau", consensus.refinement.tau},
                        {"refine_batch", consensus.refinement.batch},
                        {"refine_patience", consensus.refinement.patience},
                        {"support_select", to_string(made.support_select)},
                        {"support_by", anchors.by_id ? "id" : "row"},
                        {"keep", keep_of(made.method).value_or(0)},
                        {"rows", {made.rows.begin, made.rows.end}}};
  std::map<std::string, std::string> metadata{
      {"format", "kedge bundle"},
      {"format_version", std::to_string(needs_kernels(bundle) ? kBundleFormat : kFirstBundleFormat)},
      {"kedge_version", made.kedge_version},
      {"method", std::string(to_string(made.method))},
      {"similarity", std::string(to_string(made.similarity))},
      {"seed", std::to_string(made.seed)},
      {"options", options.dump()},
      {"sources", Json(made.sources).dump()},
      {"spaces", names.dump()},
      {"attached", attached.dump()}};
  if (!anchors.refine_losses.empty()) metadata["refine_losses"] = Json(anchors.refine_losses).dump();
  if (const auto* param = std::get_if<Param>(&made.method)) {
    metadata["param"] = to_json(*param);
    metadata["history"] = history_to_json(anchors.history);
  }
  return metadata;
}

/// `prefix` is the name of a space and what its map is.
void add_map(Tensors& tensors, const std::string& prefix, const RelativeMap& map) {
  tensors.push_back(tensor(prefix + "weight", map.weight()));
  tensors.push_back(tensor(prefix + "bias", map.bias()));
  tensors.push_back(tensor(prefix + "mean", map.mean()));
  if (!map.kernel()) return;
  const Kernel& kernel = *map.kernel();
  if (kernel.whitener.rows() != 0) tensors.push_back(tensor(prefix + "kernel_whitener", kernel.whitener));
  tensors.push_back(tensor(prefix + "kernel_rows", kernel.rows));
  tensors.push_back(tensor(prefix + "kernel_coefficients", kernel.coefficients));
}

/// Views of the bundle, in the order of the file.
Tensors tensors_of(const Bundle& bundle) {
  const LearnedAnchors& anchors = bundle.anchors();
  Tensors tensors;
  tensors.push_back(
      {"support_ids", io::DType::i64, {anchors.support_ids.size()}, std::as_bytes(std::span(anchors.support_ids))});
  tensors.push_back(tensor("mixture", anchors.mixture));
  if (anchors.targets.rows() != 0) tensors.push_back(tensor("targets", anchors.targets));
  if (anchors.sketch.rows() != 0) tensors.push_back(tensor("sketch", anchors.sketch));
  for (const Attachment& space : bundle.spaces()) {
    const std::string& name = space.space();
    add_map(tensors, name + ".", *space.map);
    if (const RelativeMap* reverse = space.reverse()) add_map(tensors, name + ".reverse_", *reverse);
    if (const KernelFit* fit = space.kernel()) tensors.push_back(tensor(name + ".r2", fit->r2));
    if (const RidgeFit* fit = space.ridge()) tensors.push_back(tensor(name + ".r2", fit->r2));
    if (const MixtureFit* fit = space.mixture()) tensors.push_back(tensor(name + ".r2", fit->r2));
    if (space.kept) {
      tensors.push_back(tensor(name + ".support", space.kept->rows));
      const std::vector<std::int64_t>& places = space.kept->places;
      if (!places.empty()) {
        tensors.push_back(
            {name + ".support_places", io::DType::i64, {places.size()}, std::as_bytes(std::span(places))});
      }
    }
    if (!space.decoder) continue;
    tensors.push_back(tensor(name + ".decode_weight", space.decoder->weight));
    tensors.push_back(tensor(name + ".decode_bias", space.decoder->bias));
    tensors.push_back(tensor(name + ".decode_r2", space.decoder->fit.r2));
  }
  return tensors;
}

}  // namespace

void save_bundle(const Bundle& bundle, const std::string& path, bool in_place) {
  if (!in_place) require_replaceable(path, ResultKind::bundle);
  io::save_safetensors(path, tensors_of(bundle), describe(bundle));
}

std::string bundle_to_bytes(const Bundle& bundle) {
  return io::safetensors_bytes(tensors_of(bundle), describe(bundle));
}

}  // namespace kedge
