// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/param.h"
#include "base/arithmetic.h"
#include "base/file_version.h"
#include "base/json.h"
#include "base/wording.h"
#include "io/outputs.h"
#include "io/safetensors.h"

#include <fmt/ranges.h>
#include <kedge/version.h>

#include <algorithm>
#include <filesystem>

namespace kedge {
namespace {

constexpr std::string_view kFormat = "kedge checkpoint ";  // and its version
constexpr unsigned kFormatVersion = 1;
constexpr JsonLimits kPurpose{.deepest = 4, .most_members = 1000};

Matrix read(const io::ByteSource& file, const io::SafetensorsInfo& info, const char* name, const std::string& path) {
  const io::ArrayInfo& array = info.tensor(name, path);
  if (array.dtype != io::DType::f32 || array.shape.size() != 2) {
    refuse_file("{}: its tensor '{}' is damaged", path, name);
  }
  Matrix matrix(array.shape[0], array.shape[1]);
  io::read_values(file, array, 0, matrix.cells());
  if (!all_finite(std::span<const float>(matrix.cells()))) {
    refuse_file("{}: its tensor '{}' holds NaN or infinity", path, name);
  }
  return matrix;
}

using Json = nlohmann::ordered_json;

/// Adds "seed was 1, now 0" for every member of the two objects that is not the same.
void add_differences(const Json& before, const Json& now, std::vector<std::string>& to) {
  for (const auto& [name, value] : now.items()) {
    const Json was = before.value(name, Json());
    if (was != value) to.push_back(fmt::format("{} was {}, now {}", name, was.dump(), value.dump()));
  }
}

std::string differences(const std::string& before, const std::string& now) {
  constexpr const char* kOptions = "param";  // an object of its own
  constexpr const char* kBackend = "backend";
  if (!json_problem(before, kPurpose).empty()) return "it was " + before;
  Json old = Json::parse(before);
  Json fresh = Json::parse(now);
  if (!old.is_object() || !old.value(kOptions, Json()).is_object()) return "it was " + before;
  for (Json* purpose : {&old, &fresh}) purpose->emplace(kBackend, "cpu");  // which is not written down
  std::vector<std::string> found;
  add_differences(old[kOptions], fresh[kOptions], found);
  old.erase(kOptions);
  fresh.erase(kOptions);
  add_differences(old, fresh, found);
  return found.empty() ? "it was " + before : fmt::format("{}", fmt::join(found, "; "));
}

}  // namespace

std::string purpose_of(const ParamTask& task, const Param& options, const Backend& backend) {
  Param but_epochs = options;
  but_epochs.epochs = 0;
  std::uint64_t mark = 0xcbf29ce484222325ULL;  // FNV-1a of the support ids
  for (const std::int64_t id : task.support_ids) mark = (mark ^ static_cast<std::uint64_t>(id)) * 0x100000001b3ULL;
  Json json = {{"anchors", task.anchors},
               {"support", task.support_ids.size()},
               {"support_mark", mark},
               {"seed", task.seed},
               {"shrinkage", task.whitening.shrinkage},
               {"shrinkage_rule", to_string(task.shrinkage_rule)},
               {"epsilon", task.whitening.epsilon},
               {"param", Json::parse(to_json(but_epochs))}};
  if (backend.name() != "cpu") json["backend"] = backend.name();
  for (const Space& space : task.spaces) json["spaces"].push_back({space.name(), space.rows(), space.dim()});
  return json.dump();
}

void save_checkpoint(const Checkpoint& c, const std::string& path) {
  const io::TensorBytes tensors[] = {io::tensor("logits", c.logits), io::tensor("first_moment", c.first_moment),
                                     io::tensor("second_moment", c.second_moment)};
  io::save_safetensors(path, tensors,
                       {{"format", fmt::format("{}{}", kFormat, kFormatVersion)},
                        {"kedge_version", std::string(version())},
                        {"purpose", c.purpose},
                        {"place", nlohmann::json({c.epoch, c.step, c.steps}).dump()},
                        {"sums", history_to_json({c.sums})},
                        {"history", history_to_json(c.history)}});
}

void require_no_other_file(const std::string& path) {
  if (!std::filesystem::is_regular_file(path) || io::says(path, kFormat)) return;
  refuse(
      "'{}' already exists and is not a checkpoint of kedge, so it will not be overwritten; name another file for "
      "checkpoints, or remove it",
      path);
}

Checkpoint load_checkpoint(const std::string& path, const std::string& purpose) {
  return read_checkpoint(io::InputFile(path), purpose);
}

Checkpoint read_checkpoint(const io::ByteSource& file, const std::string& purpose) {
  const std::string& path = file.label();
  const io::SafetensorsInfo info = io::parse_safetensors(file);
  const auto text = [&](const char* key) {
    const auto found = info.metadata.find(key);
    if (found == info.metadata.end()) refuse_file("{}: it is not a checkpoint of kedge", path);
    return found->second;
  };
  const std::string format = text("format");
  if (!format.starts_with(kFormat)) refuse_file("{}: it is not a checkpoint of kedge", path);
  const auto written_by = info.metadata.find("kedge_version");
  const std::string problem = format_problem(std::string_view(format).substr(kFormat.size()), kFormatVersion,
                                             written_by == info.metadata.end() ? "" : written_by->second);
  if (!problem.empty()) refuse_file("{}: {}", path, problem);
  if (text("purpose") != purpose) {
    refuse("{} belongs to a different training run, so it cannot be resumed with these options: {}", path,
           differences(text("purpose"), purpose));
  }
  Checkpoint c;
  c.purpose = purpose;
  try {
    const auto place = parse_json(text("place"), "its place", {.deepest = 1, .longest_list = 3});
    for (std::size_t i = 0; i < 3; ++i) {
      if (!place.at(i).is_number_unsigned()) refuse_file("its position is damaged");
    }
    c.epoch = place[0].get<std::size_t>();
    c.step = place[1].get<std::size_t>();
    c.steps = place[2].get<std::uint64_t>();
    c.sums = history_from_json(text("sums")).at(0);
    c.history = history_from_json(text("history"));
  } catch (const std::exception&) {
    refuse_file("{}: it is damaged", path);
  }
  c.logits = read(file, info, "logits", path);
  c.first_moment = read(file, info, "first_moment", path);
  c.second_moment = read(file, info, "second_moment", path);
  if (std::ranges::any_of(c.second_moment.cells(), [](float value) { return value < 0; })) {
    refuse_file("{}: its tensor 'second_moment' holds negative values, which training never produces", path);
  }
  return c;
}

}  // namespace kedge
