// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/param_options.h"
#include "bundle/bundle_check.h"
#include "bundle/bundle_reader.h"
#include "io/byte_source.h"
#include "io/outputs.h"
#include "io/safetensors.h"

#include <fmt/format.h>
#include <kedge/bundle.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

namespace kedge {
namespace {

using Json = nlohmann::ordered_json;
using Tensors = std::vector<io::TensorBytes>;

io::TensorBytes tensor(std::string name, const Matrix& matrix) {
  return {std::move(name), io::DType::f32, {matrix.rows(), matrix.cols()}, std::as_bytes(matrix.cells())};
}
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

Json describe(const Attachment& space) {
  Json json = {{"by", to_string(space.by)}, {"shrinkage", space.shrinkage}};
  const auto describe_fit = [](const RidgeFit& fit) {
    return Json{{"strength", fit.strength}, {"whitening", fit.whitening}, {"r2", fit.mean_r2}};
  };
  if (space.ridge) json["ridge"] = describe_fit(*space.ridge);
  if (space.decoder) json["decoder"] = describe_fit(space.decoder->fit);
  if (space.mixture) json["mixture"] = {{"r2", space.mixture->mean_r2}};
  if (space.row_check) json["row_check"] = describe(*space.row_check);
  if (space.kernel) {
    const KernelFit& fit = *space.kernel;
    json["kernel"] = {{"width", fit.width},
                      {"strength", fit.strength},
                      {"whitening", fit.whitening},
                      {"r2", fit.mean_r2},
                      {"error", fit.error}};
  }
  if (space.choice) {
    json["choice"] = {{"ridge_error", space.choice->ridge_error}, {"kernel_error", space.choice->kernel_error}};
  }
  if (space.reverse) {
    json["reverse"] = {{"space", space.reverse->space()}, {"width", space.reverse->kernel().value().width}};
    if (const auto& fit = space.reverse_fit) {
      json["reverse"].update(
          {{"strength", fit->strength}, {"whitening", fit->whitening}, {"r2", fit->mean_r2}, {"error", fit->error}});
    }
  }
  return json;
}

/// What a reader of the first format could not do without.
bool needs_kernels(const Bundle& bundle) {
  const bool made =
      std::ranges::any_of(bundle.spaces, [](const Attachment& space) { return space.map->kernel() || space.choice; });
  return made || is_adapter(bundle.method, Pairwise::kernel) || bundle.attach_by == AttachBy::kernel ||
         bundle.attach_by == AttachBy::automatic;
}

/// The file has these options for every method.
Consensus consensus_of(const Method& method) {
  if (const auto* consensus = std::get_if<Consensus>(&method)) return *consensus;
  const auto* adapter = std::get_if<Adapter>(&method);
  return adapter == nullptr ? Consensus{} : Consensus{adapter->power};
}

std::map<std::string, std::string> describe(const Bundle& bundle) {
  Json names = Json::array();
  Json attached = Json::object();
  for (const Attachment& space : bundle.spaces) {
    names.push_back(space.space());
    attached[space.space()] = describe(space);
  }
  const Consensus consensus = consensus_of(bundle.method);
  const Json options = {{"shrinkage", bundle.whitening.shrinkage},
                        {"shrinkage_rule", to_string(bundle.shrinkage_rule)},
                        {"epsilon", bundle.whitening.epsilon},
                        {"attach", to_string(bundle.attach_by)},
                        {"power", consensus.power},
                        {"refine_epochs", consensus.refinement.epochs.value_or(0)},
                        {"refine_rate", consensus.refinement.rate},
                        {"refine_tau", consensus.refinement.tau},
                        {"refine_batch", consensus.refinement.batch},
                        {"refine_patience", consensus.refinement.patience},
                        {"support_select", to_string(bundle.support_select)},
                        {"support_by", bundle.by_id ? "id" : "row"},
                        {"keep", keep_of(bundle.method).value_or(0)},
                        {"rows", {bundle.rows.begin, bundle.rows.end}}};
  std::map<std::string, std::string> metadata{
      {"format", "kedge bundle"},
      {"format_version", std::to_string(needs_kernels(bundle) ? kBundleFormat : kFirstBundleFormat)},
      {"kedge_version", bundle.kedge_version},
      {"method", std::string(to_string(bundle.method))},
      {"similarity", std::string(to_string(bundle.similarity))},
      {"seed", std::to_string(bundle.seed)},
      {"options", options.dump()},
      {"sources", Json(bundle.sources).dump()},
      {"spaces", names.dump()},
      {"attached", attached.dump()}};
  if (!bundle.refine_losses.empty()) metadata["refine_losses"] = Json(bundle.refine_losses).dump();
  if (const auto* param = std::get_if<Param>(&bundle.method)) {
    metadata["param"] = to_json(*param);
    metadata["history"] = history_to_json(bundle.history);
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
  Tensors tensors;
  tensors.push_back(
      {"support_ids", io::DType::i64, {bundle.support_ids.size()}, std::as_bytes(std::span(bundle.support_ids))});
  tensors.push_back(tensor("mixture", bundle.mixture));
  if (bundle.targets.rows() != 0) tensors.push_back(tensor("targets", bundle.targets));
  if (bundle.sketch.rows() != 0) tensors.push_back(tensor("sketch", bundle.sketch));
  for (const Attachment& space : bundle.spaces) {
    const std::string& name = space.space();
    add_map(tensors, name + ".", *space.map);
    if (space.reverse) add_map(tensors, name + ".reverse_", *space.reverse);
    if (space.kernel) tensors.push_back(tensor(name + ".r2", space.kernel->r2));
    if (space.ridge) tensors.push_back(tensor(name + ".r2", space.ridge->r2));
    if (space.mixture) tensors.push_back(tensor(name + ".r2", space.mixture->r2));
    if (!space.decoder) continue;
    tensors.push_back(tensor(name + ".decode_weight", space.decoder->weight));
    tensors.push_back(tensor(name + ".decode_bias", space.decoder->bias));
    tensors.push_back(tensor(name + ".decode_r2", space.decoder->fit.r2));
  }
  return tensors;
}

void require_whole(const Bundle& bundle) {
  require_consistent(bundle);
  for (const Attachment& space : bundle.spaces) require_fits(bundle, space);
  require_sources(bundle);
}

}  // namespace

void save_bundle(const Bundle& bundle, const std::string& path, bool in_place) {
  require_whole(bundle);
  if (!in_place) require_replaceable(path, ResultKind::bundle);
  io::save_safetensors(path, tensors_of(bundle), describe(bundle));
}

Bundle load_bundle(const std::string& path) {
  return read_bundle(io::InputFile(path));
}

std::shared_ptr<const RelativeMap> load_map(const std::string& path, std::string_view space) {
  return std::make_shared<RelativeMap>(read_map(io::InputFile(path), space));
}

std::string bundle_to_bytes(const Bundle& bundle) {
  require_whole(bundle);
  return io::safetensors_bytes(tensors_of(bundle), describe(bundle));
}

Bundle bundle_from_bytes(std::string_view bytes, const std::string& label) {
  return read_bundle(io::MemoryBytes(std::as_bytes(std::span(bytes)), label));
}

}  // namespace kedge
