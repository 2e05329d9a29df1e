// SPDX-License-Identifier: Apache-2.0
#include "io/byte_source.h"
#include "io/safetensors.h"
#include "io/tensor_file.h"
#include "space/variation.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/moments.h>
#include <kedge/outputs.h>
#include <kedge/version.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace kedge {
namespace {

constexpr unsigned kMomentsFormat = 1;
constexpr std::size_t kMostRows = std::size_t{1} << 53;  // what float64 still counts

/// Both triangles, so that any language can use them.
Matrix64 whole_scatter(const Moments& moments) {
  Matrix64 whole = moments.scatter();
  for (std::size_t i = 0; i < whole.rows(); ++i) {
    for (std::size_t j = 0; j < i; ++j) whole.row(j)[i] = whole.row(i)[j];
  }
  return whole;
}

std::map<std::string, std::string> describe(const Moments& moments) {
  nlohmann::ordered_json spaces = nlohmann::ordered_json::array();
  for (const Moments::Part& part : moments.parts()) spaces.push_back({{"name", part.space}, {"dim", part.dim}});
  return {{"format", "kedge moments"},
          {"format_version", std::to_string(kMomentsFormat)},
          {"kedge_version", std::string(version())},
          {"rows", std::to_string(moments.rows())},
          {"spaces", spaces.dump()}};
}

/// Views of the moments and of their whole scatter.
std::vector<io::TensorBytes> tensors_of(const Moments& moments, const Matrix64& scatter) {
  const auto tensor = [](std::string name, std::vector<std::size_t> shape, std::span<const double> values) {
    return io::TensorBytes{std::move(name), io::DType::f64, std::move(shape), std::as_bytes(values)};
  };
  std::vector<io::TensorBytes> tensors{tensor("mean", {moments.dim()}, moments.mean()),
                                       tensor("scatter", {moments.dim(), moments.dim()}, scatter.cells())};
  if (!moments.fourth().empty()) {
    tensors.push_back(tensor("third", {moments.dim()}, moments.third()));
    tensors.push_back(tensor("fourth", {moments.fourth().size()}, moments.fourth()));
  }
  return tensors;
}

/// Sums of products of real rows: symmetric, and none larger than its squares allow, but for what rounding leaves of
/// values that are large and hardly vary.
void require_products(const io::TensorFile& file, Matrix64& scatter, std::span<const double> mean, std::size_t rows) {
  constexpr double kRounding = 1e-9, kOfLargeValues = 1e-12;
  const auto sizes = [&](std::size_t i) {
    return std::sqrt(std::max(0.0, scatter.row(i)[i])) + std::sqrt(static_cast<double>(rows)) * std::abs(mean[i]);
  };
  for (std::size_t i = 0; i < scatter.rows(); ++i) {
    if (scatter.row(i)[i] < -kOfLargeValues * sizes(i) * sizes(i)) {
      file.refuse(fmt::format("its sum of squares {} is negative", i));
    }
    scatter.row(i)[i] = std::max(0.0, scatter.row(i)[i]);
    for (std::size_t j = 0; j < i; ++j) {
      const double most = std::sqrt(scatter.row(i)[i]) * std::sqrt(scatter.row(j)[j]) +
                          kOfLargeValues * sizes(i) * sizes(j) + std::numeric_limits<double>::min();
      const double found = scatter.row(i)[j];
      if (std::abs(found) <= (1 + kRounding) * most && std::abs(found - scatter.row(j)[i]) <= kRounding * most)
        continue;
      file.refuse(fmt::format("its sum of products {},{} cannot be one of real rows", i, j));
    }
  }
}

Moments read_parts(const io::TensorFile& file) {
  std::vector<Moments::Part> parts;
  std::size_t dim = 0;
  const std::size_t width = file.shape("mean", io::DType::f64, 1)[0];
  const auto spaces = file.json("spaces");
  for (const auto& space : spaces) {
    parts.push_back({space.at("name").get<std::string>(), file.whole_number(space.at("dim"))});
    // Before they are added up: a sum that wraps would look small.
    if (parts.back().dim > width - dim)
      file.refuse(fmt::format("its spaces have more than the {} values of its mean", width));
    dim += parts.back().dim;
  }
  const std::size_t rows = file.whole_number(file.json("rows"));
  if (rows > kMostRows) file.refuse(fmt::format("it counts {} rows, more than can be", rows));
  const auto& shape = file.shape("scatter", io::DType::f64, 2);
  if (shape[0] != dim || shape[1] != dim || width != dim) {
    file.refuse(fmt::format("its spaces have {} values in all, but its products are {} x {}", dim, shape[0], shape[1]));
  }
  Matrix64 scatter = file.matrix64("scatter");
  std::vector<double> mean = file.vector64("mean");
  require_products(file, scatter, mean, rows);
  const bool fourth = file.has("fourth");
  if (fourth != file.has("third")) file.refuse("it has one of 'third' and 'fourth', but not the other");
  Moments moments(std::move(parts), rows, std::move(mean), std::move(scatter),
                  fourth ? file.vector64("third") : std::vector<double>(),
                  fourth ? file.vector64("fourth") : std::vector<double>());
  for (const double sum : moments.fourth()) {
    if (sum < 0) file.refuse("a sum of fourth powers is negative");
  }
  return moments;
}

Moments read_moments(const io::ByteSource& bytes) {
  const io::TensorFile file(bytes, "kedge moments", kMomentsFormat, "moments");
  Moments moments;
  file.guard([&] { moments = read_parts(file); });
  return moments;
}

void require_spaces(const Moments& moments) {
  if (moments.parts().empty()) throw Error(Code::bad_argument, "these moments are of no space; add rows first");
  require_sums(moments);
}

}  // namespace

void save_moments(const Moments& moments, const std::string& path, bool in_place) {
  require_spaces(moments);
  if (!in_place) require_replaceable(path, ResultKind::moments);
  const Matrix64 scatter = whole_scatter(moments);
  io::save_safetensors(path, tensors_of(moments, scatter), describe(moments));
}

Moments load_moments(const std::string& path) {
  return read_moments(io::InputFile(path));
}

std::string moments_to_bytes(const Moments& moments) {
  require_spaces(moments);
  const Matrix64 scatter = whole_scatter(moments);
  return io::safetensors_bytes(tensors_of(moments, scatter), describe(moments));
}

Moments moments_from_bytes(std::string_view bytes, const std::string& label) {
  return read_moments(io::MemoryBytes(std::as_bytes(std::span(bytes)), label));
}

}  // namespace kedge
