// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.h"

#include <fmt/format.h>
#include <kedge/bundle.h>
#include <kedge/error.h>
#include <kedge/version.h>

namespace kedge {

void export_safetensors(const RelativeMap& map, const std::string& path) {
  std::vector<io::TensorBytes> tensors = {
      {"weight", io::DType::f32, {map.output_dim(), map.input_dim()}, std::as_bytes(map.weight().cells())},
      {"bias", io::DType::f32, {map.output_dim()}, std::as_bytes(std::span(map.bias()))}};
  if (map.similarity() == Similarity::euclidean) {  // the only one whose formula needs it; see docs/format.md
    tensors.push_back({"mean", io::DType::f32, {map.input_dim()}, std::as_bytes(std::span(map.mean()))});
  }
  io::save_safetensors(path, tensors,
                       {{"format", "kedge map"},
                        {"kedge_version", std::string(version())},
                        {"space", map.space()},
                        {"similarity", std::string(to_string(map.similarity()))}});
}

std::vector<std::string> export_npy(const RelativeMap& map, const std::string& path) {
  if (!path.ends_with(".npy")) {
    throw Error(Code::bad_argument, fmt::format("cannot export to '{}': give a name that ends in .npy", path));
  }
  const std::string prefix = path.substr(0, path.size() - 4);
  const std::vector<std::string> paths = {prefix + ".weight.npy", prefix + ".bias.npy", prefix + ".mean.npy"};
  save_npy(paths[0], map.weight().view());
  save_npy(paths[1], std::span(map.bias()));
  save_npy(paths[2], std::span(map.mean()));
  return paths;
}

}  // namespace kedge
