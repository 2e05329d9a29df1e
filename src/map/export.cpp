// SPDX-License-Identifier: Apache-2.0
#include "io/npy.h"
#include "io/output_file.h"
#include "io/safetensors.h"

#include <fmt/format.h>
#include <kedge/bundle.h>
#include <kedge/error.h>
#include <kedge/version.h>

#include <deque>
#include <span>

namespace kedge {
namespace {

constexpr std::size_t kAlignment = 64;  // as numpy's own

}  // namespace

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
  const std::size_t shape[] = {map.output_dim(), map.input_dim()};
  const std::size_t outputs[] = {map.output_dim()};
  const std::size_t inputs[] = {map.input_dim()};
  std::deque<io::OutputFile> files;
  const auto write = [&](std::span<const std::size_t> of, std::span<const float> values) {
    files.emplace_back(paths[files.size()]).append(io::npy_header(of, kAlignment));
    files.back().append(std::as_bytes(values));
  };
  write(shape, map.weight().cells());
  write(outputs, map.bias());
  write(inputs, map.mean());
  for (io::OutputFile& file : files) file.finish(io::Durability::renamed);  // all are whole before one is in its place
  return paths;
}

}  // namespace kedge
