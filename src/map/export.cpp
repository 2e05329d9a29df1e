// SPDX-License-Identifier: Apache-2.0
#include "io/byte_source.h"
#include "io/npy.h"
#include "io/output_file.h"
#include "io/outputs.h"
#include "io/safetensors.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/export.h>
#include <kedge/outputs.h>
#include <kedge/version.h>
#include <kedge/wording.h>

#include <algorithm>
#include <deque>
#include <map>
#include <span>
#include <string_view>

namespace kedge {
namespace {

constexpr std::size_t kAlignment = 64;  // as numpy's own
constexpr std::string_view kEnding = ".npy";

/// One array of a map, and what it is called.
struct Part {
  std::string name;
  std::vector<std::size_t> shape;
  std::span<const float> values;
};

std::vector<Part> linear_parts(const Matrix& weight, const std::vector<float>& bias) {
  return {{"weight", {weight.rows(), weight.cols()}, weight.cells()}, {"bias", {bias.size()}, bias}};
}

Part mean_part(const RelativeMap& map) {
  return {"mean", {map.input_dim()}, map.mean()};
}

using Metadata = std::map<std::string, std::string>;

void save(const std::vector<Part>& parts, Metadata metadata, const std::string& path, const ExportOptions& options) {
  if (!options.in_place) require_replaceable(path, ResultKind::safetensors_map);
  std::vector<io::TensorBytes> tensors;
  for (const Part& part : parts) tensors.push_back({part.name, io::DType::f32, part.shape, std::as_bytes(part.values)});
  metadata.emplace("kedge_version", version());
  if (options.normalize) metadata.emplace("normalize", "true");
  io::save_safetensors(path, tensors, metadata);
}

std::vector<std::string> paths_of(const std::string& path, std::span<const Part> parts) {
  if (!path.ends_with(kEnding)) {
    throw Error(Code::bad_argument, fmt::format("cannot export to '{}': give a name that ends in .npy", path));
  }
  const std::string prefix = path.substr(0, path.size() - kEnding.size());
  std::vector<std::string> paths;
  for (const Part& part : parts) paths.push_back(fmt::format("{}.{}{}", prefix, part.name, kEnding));
  return paths;
}

/// Of an earlier export; empty if the file is anything else.
std::vector<std::size_t> shape_of(const std::string& path) {
  try {
    const io::ArrayInfo array = io::parse_npy(io::InputFile(path));
    return array.dtype == io::DType::f32 ? array.shape : std::vector<std::size_t>();
  } catch (const Error&) {
    return {};
  }
}

/// An array does not say who wrote it, but arrays of these names whose sizes fit together are a map.
void require_earlier_export(std::span<const std::string> paths) {
  const std::vector<std::size_t> weight = shape_of(paths[0]), bias = shape_of(paths[1]);
  const bool linear = weight.size() == 2 && bias.size() == 1 && weight[0] == bias[0];
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!io::holds_something(paths[i])) continue;
    const bool fits = linear && (i < 2 || shape_of(paths[i]) == std::vector{weight[1]});
    if (!fits) io::refuse_to_replace(paths[i], "part of a map that kedge exported");
  }
}

std::vector<std::string> save_arrays(const std::vector<Part>& parts, const std::string& path,
                                     const ExportOptions& options) {
  std::vector<std::string> paths = paths_of(path, parts);
  if (options.normalize) {
    throw Error(Code::bad_argument,
                fmt::format("cannot export to '{}' with {}: plain arrays do not say that results are to be normalised; "
                            "export to .onnx, which does it, or to .safetensors, whose metadata say it",
                            path, flag_words("normalize")));
  }
  if (!options.in_place) require_earlier_export(paths);
  std::deque<io::OutputFile> files;
  for (const Part& part : parts) {
    files.emplace_back(paths[files.size()]).append(io::npy_header(part.shape, kAlignment));
    files.back().append(std::as_bytes(part.values));
  }
  for (io::OutputFile& file : files) file.finish(io::Durability::renamed);  // all are whole before one is in its place
  return paths;
}

std::vector<Part> array_parts(const RelativeMap& map) {
  std::vector<Part> parts = linear_parts(map.weight(), map.bias());
  parts.push_back(mean_part(map));
  return parts;
}

std::vector<Part> array_parts(const Translator& translator) {
  return linear_parts(translator.weight(), translator.bias());
}

}  // namespace

void export_safetensors(const RelativeMap& map, const std::string& path, const ExportOptions& options) {
  std::vector<Part> parts = linear_parts(map.weight(), map.bias());
  // The only ones whose formulas need it; see docs/format.md.
  const bool distances = map.similarity() == Similarity::euclidean || map.similarity() == Similarity::manhattan;
  if (distances) parts.push_back(mean_part(map));
  save(parts,
       {{"format", "kedge map"}, {"space", map.space()}, {"similarity", std::string(to_string(map.similarity()))}},
       path, options);
}

void export_safetensors(const Translator& translator, const std::string& path, const ExportOptions& options) {
  save(array_parts(translator), {{"format", "kedge translator"}, {"from", translator.from()}, {"to", translator.to()}},
       path, options);
}

std::vector<std::string> export_npy(const RelativeMap& map, const std::string& path, const ExportOptions& options) {
  return save_arrays(array_parts(map), path, options);
}

std::vector<std::string> export_npy(const Translator& translator, const std::string& path,
                                    const ExportOptions& options) {
  return save_arrays(array_parts(translator), path, options);
}

std::vector<std::string> npy_paths(const RelativeMap& map, const std::string& path) {
  return paths_of(path, array_parts(map));
}

std::vector<std::string> npy_paths(const Translator& translator, const std::string& path) {
  return paths_of(path, array_parts(translator));
}

}  // namespace kedge
