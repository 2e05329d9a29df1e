// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/purpose.h"

#include "anchors/param/param_options.h"

#include <nlohmann/json.hpp>

namespace kedge {

std::string purpose_of(const ParamTask& task, const Param& options, const Backend& backend) {
  Param but_epochs = options;
  but_epochs.epochs = 0;
  std::uint64_t mark = 0xcbf29ce484222325ULL;  // FNV-1a of the support ids
  for (const std::int64_t id : task.support_ids) mark = (mark ^ static_cast<std::uint64_t>(id)) * 0x100000001b3ULL;
  nlohmann::ordered_json json = {{"anchors", task.anchors},
                                 {"support", task.support_ids.size()},
                                 {"support_mark", mark},
                                 {"seed", task.seed},
                                 {"shrinkage", task.whitening.shrinkage},
                                 {"shrinkage_rule", to_string(task.shrinkage_rule)},
                                 {"epsilon", task.whitening.epsilon},
                                 {"param", nlohmann::ordered_json::parse(to_json(but_epochs))}};
  if (backend.name() != "cpu") json["backend"] = backend.name();
  for (const Space& space : task.spaces) json["spaces"].push_back({space.name(), space.rows(), space.dim()});
  return json.dump();
}

}  // namespace kedge
