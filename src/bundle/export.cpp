// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"
#include "io/output_file.h"
#include "io/outputs.h"
#include "io/safetensors.h"

#include <kedge/export.h>
#include <kedge/version.h>

#include <deque>
#include <memory>

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

/// All arrays of a map or a translator, which must outlive them.
struct Arrays {
  std::vector<Part> parts;
  std::shared_ptr<const float> width;  ///< of a kernel: a number, which becomes an array of one value
};

Part matrix_part(std::string name, const Matrix& matrix) {
  return {std::move(name), {matrix.rows(), matrix.cols()}, matrix.cells()};
}

template <class Map>
Arrays arrays_of(const Map& map, bool with_mean) {
  Arrays arrays{{matrix_part("weight", map.weight()), {"bias", {map.bias().size()}, map.bias()}}, {}};
  std::vector<Part>& parts = arrays.parts;
  if (with_mean || map.kernel()) parts.push_back({"mean", {map.mean().size()}, map.mean()});
  if (!map.kernel()) return arrays;
  const Kernel& kernel = *map.kernel();
  if (kernel.whitener.rows() != 0) parts.push_back(matrix_part("kernel_whitener", kernel.whitener));
  parts.push_back(matrix_part("kernel_rows", kernel.rows));
  parts.push_back(matrix_part("kernel_coefficients", kernel.coefficients));
  arrays.width = std::make_shared<const float>(static_cast<float>(kernel.width));
  parts.push_back({"kernel_width", {1}, {arrays.width.get(), 1}});
  return arrays;
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
    refuse("cannot export to '{}': give a name that ends in .npy", path);
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

/// Whether an array of that name can belong to a map with that weight.
bool fits(const std::string& name, const std::vector<std::size_t>& shape, const std::vector<std::size_t>& weight) {
  if (name == "kernel_width") return shape == std::vector<std::size_t>{1};
  if (name == "mean") return shape == std::vector{weight[1]};
  if (shape.size() != 2) return name == "bias";
  return shape[1] == (name == "kernel_coefficients" ? weight[0] : weight[1]);
}

/// An array does not say who wrote it, but arrays of these names whose sizes fit together are a map.
void require_earlier_export(std::span<const Part> parts, std::span<const std::string> paths) {
  const std::vector<std::size_t> weight = shape_of(paths[0]), bias = shape_of(paths[1]);
  const bool linear = weight.size() == 2 && bias.size() == 1 && weight[0] == bias[0];
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!io::holds_something(paths[i])) continue;
    if (linear && fits(parts[i].name, shape_of(paths[i]), weight)) continue;
    io::refuse_to_replace(paths[i], "part of a map that kedge exported");
  }
}

std::vector<std::string> save_arrays(const std::vector<Part>& parts, const std::string& path,
                                     const ExportOptions& options) {
  std::vector<std::string> paths = paths_of(path, parts);
  if (options.normalize) {
    refuse(
        "cannot export to '{}' with {}: plain arrays do not say that results are to be normalised; export to .onnx, "
        "which does it, or to .safetensors, whose metadata say it",
        path, flag_words("normalize"));
  }
  if (!options.in_place) require_earlier_export(parts, paths);
  std::deque<io::OutputFile> files;
  for (const Part& part : parts) {
    files.emplace_back(paths[files.size()]).append(io::npy_header(part.shape, kAlignment));
    files.back().append(std::as_bytes(part.values));
  }
  for (io::OutputFile& file : files) file.finish(io::Durability::renamed);  // all are whole before one is in its place
  return paths;
}

}  // namespace

void export_safetensors(const RelativeMap& map, const std::string& path, const ExportOptions& options) {
  // The others' formulas do not need a mean; see docs/format.md.
  const bool distances = map.similarity() == Similarity::euclidean || map.similarity() == Similarity::manhattan;
  save(arrays_of(map, distances).parts,
       {{"format", "kedge map"}, {"space", map.space()}, {"similarity", std::string(to_string(map.similarity()))}},
       path, options);
}

void export_safetensors(const Translator& translator, const std::string& path, const ExportOptions& options) {
  save(arrays_of(translator, false).parts,
       {{"format", "kedge translator"}, {"from", translator.from()}, {"to", translator.to()}}, path, options);
}

std::vector<std::string> export_npy(const RelativeMap& map, const std::string& path, const ExportOptions& options) {
  return save_arrays(arrays_of(map, true).parts, path, options);
}

std::vector<std::string> export_npy(const Translator& translator, const std::string& path,
                                    const ExportOptions& options) {
  return save_arrays(arrays_of(translator, false).parts, path, options);
}

std::vector<std::string> npy_paths(const RelativeMap& map, const std::string& path) {
  return paths_of(path, arrays_of(map, true).parts);
}

std::vector<std::string> npy_paths(const Translator& translator, const std::string& path) {
  return paths_of(path, arrays_of(translator, false).parts);
}

}  // namespace kedge
