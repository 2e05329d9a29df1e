// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.h"
#include "base/wording.h"
#include "io/outputs.h"
#include "io/tensor_file.h"
#include "space/sum_rows.h"

#include <kedge/moments.h>
#include <kedge/version.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace kedge {
namespace {

constexpr unsigned kMomentsFormat = 1;
constexpr std::size_t kMostRows = std::size_t{1} << 53;  // what float64 still counts

std::map<std::string, std::string> describe(const Moments& moments) {
  nlohmann::ordered_json spaces = nlohmann::ordered_json::array();
  for (const Moments::Part& part : moments.parts()) spaces.push_back({{"name", part.space}, {"dim", part.dim}});
  std::map<std::string, std::string> about{{"format", "kedge moments"},
                                           {"format_version", std::to_string(kMomentsFormat)},
                                           {"kedge_version", std::string(version())},
                                           {"rows", std::to_string(moments.rows())},
                                           {"spaces", spaces.dump()}};
  const SupportDraw& support = moments.support();
  if (support.keeps_rows() && support.wanted().empty()) {
    about["support"] = nlohmann::ordered_json{{"rows", support.count()}, {"seed", support.seed()}}.dump();
  }
  return about;
}

/// The support as it is written, in its order.
struct SupportTensors {
  explicit SupportTensors(const SupportDraw& draw) : ids(draw.ids()), rows(draw.rows()) {}
  std::vector<std::int64_t> ids;
  Matrix rows;
};

/// Views of the moments, of their scatter, whose upper triangle may be missing, and of their support.
std::vector<io::TensorBytes> tensors_of(const Moments& moments, const Matrix64& scatter,
                                        const SupportTensors& support) {
  const auto tensor = [](std::string name, std::vector<std::size_t> shape, std::span<const double> values) {
    return io::TensorBytes{std::move(name), io::DType::f64, std::move(shape), std::as_bytes(values)};
  };
  std::vector<io::TensorBytes> tensors{tensor("mean", {moments.dim()}, moments.mean()),
                                       tensor("scatter", {moments.dim(), moments.dim()}, scatter.cells())};
  if (!moments.fourth().empty()) {
    tensors.push_back(tensor("third", {moments.dim()}, moments.third()));
    tensors.push_back(tensor("fourth", {moments.fourth().size()}, moments.fourth()));
  }
  if (!moments.support().keeps_rows()) return tensors;
  const auto integers = [&](std::string name, std::span<const std::int64_t> values) {
    tensors.push_back({std::move(name), io::DType::i64, {values.size()}, std::as_bytes(values)});
  };
  if (!moments.support().wanted().empty()) integers("support_wanted", moments.support().wanted());
  integers("support_ids", support.ids);
  tensors.push_back(
      {"support", io::DType::f32, {support.ids.size(), moments.dim()}, std::as_bytes(support.rows.cells())});
  return tensors;
}

/// Copies the lower triangle of a square of float64, at any address, to the upper one: any language can use that.
void mirror(char* square, std::size_t dim) {
  const auto at = [&](std::size_t row, std::size_t col) { return square + (row * dim + col) * sizeof(double); };
  for_lower_triangle(dim, [&](std::size_t i, std::size_t j) { std::memcpy(at(j, i), at(i, j), sizeof(double)); });
}

/// Requires sums of products that real rows can have: symmetric, and none larger than its squares allow. Values that
/// are large and hardly vary leave some rounding.
void require_products(const io::TensorFile& file, Matrix64& scatter, std::span<const double> mean, std::size_t rows) {
  constexpr double kRounding = 1e-9, kOfLargeValues = 1e-12;
  const auto sizes = [&](std::size_t i) {
    return std::sqrt(std::max(0.0, scatter.row(i)[i])) + std::sqrt(static_cast<double>(rows)) * std::abs(mean[i]);
  };
  for (std::size_t i = 0; i < scatter.rows(); ++i) {
    if (scatter.row(i)[i] < -kOfLargeValues * sizes(i) * sizes(i)) {
      file.refuse("its sum of squares {} is negative", i);
    }
    scatter.row(i)[i] = std::max(0.0, scatter.row(i)[i]);
    for (std::size_t j = 0; j < i; ++j) {
      const double most = std::sqrt(scatter.row(i)[i]) * std::sqrt(scatter.row(j)[j]) +
                          kOfLargeValues * sizes(i) * sizes(j) + std::numeric_limits<double>::min();
      const double found = scatter.row(i)[j];
      if (std::abs(found) <= (1 + kRounding) * most && std::abs(found - scatter.row(j)[i]) <= kRounding * most)
        continue;
      file.refuse("its sum of products {},{} cannot be one of real rows", i, j);
    }
  }
}

SupportDraw read_rule(const io::TensorFile& file) {
  if (file.has("support_wanted")) return SupportDraw(file.vector<std::int64_t>("support_wanted"));
  const auto rule = file.json("support");
  return {file.whole_number(rule.at("rows")), file.whole_number(rule.at("seed"))};
}

/// The support, drawn out of so many rows.
SupportDraw read_support(const io::TensorFile& file, std::size_t rows, std::size_t dim) {
  if (!file.has("support_ids")) {
    for (const char* other : {"support", "support_wanted"}) {
      if (file.has(other) || file.says(other)) file.refuse("it has '{}', but no 'support_ids'", other);
    }
    return {};
  }
  SupportDraw draw = read_rule(file);
  const auto& shape = file.shape("support", io::DType::f32, 2);
  const std::vector<std::int64_t> ids = file.vector<std::int64_t>("support_ids");
  if (shape[0] != ids.size() || shape[1] != dim) {
    file.refuse("it has {} support ids and {} values to a row, but its support rows are {} x {}", ids.size(), dim,
                shape[0], shape[1]);
  }
  const bool drawn = draw.wanted().empty();
  const std::size_t most = std::min(draw.count(), rows);
  if (ids.size() > most || (drawn && ids.size() < most)) {
    file.refuse("{} support rows cannot be drawn out of {}, but {}", ids.size(), rows,
                drawn ? fmt::format("{}", most) : fmt::format("{} at most", most));
  }
  if (std::ranges::any_of(ids, [](std::int64_t id) { return id < 0; })) file.refuse("a support id is negative");
  const Matrix values = file.matrix("support");
  const MatrixView<const float> view = values.view();
  draw.add(ids, {&view, 1});
  if (draw.ids() != ids) file.refuse("its support rows are not in the order of the draw, or not among those wanted");
  return draw;
}

Moments read_parts(const io::TensorFile& file) {
  std::vector<Moments::Part> parts;
  std::size_t dim = 0;
  const std::size_t width = file.shape("mean", io::DType::f64, 1)[0];
  const auto spaces = file.json("spaces");
  for (const auto& space : spaces) {
    parts.push_back({space.at("name").get<std::string>(), file.whole_number(space.at("dim"))});
    if (parts.back().dim > width - dim) {  // checked before it is added, because a sum that wraps would look small
      file.refuse("its spaces have more than the {} values of its mean", width);
    }
    dim += parts.back().dim;
  }
  const std::size_t rows = file.whole_number(file.json("rows"));
  if (rows > kMostRows) file.refuse("it counts {} rows, more than can be", rows);
  const auto& shape = file.shape("scatter", io::DType::f64, 2);
  if (shape[0] != dim || shape[1] != dim || width != dim) {
    file.refuse("its spaces have {} values in all, but its products are {} x {}", dim, shape[0], shape[1]);
  }
  Matrix64 scatter = file.matrix<double>("scatter");
  std::vector<double> mean = file.vector<double>("mean");
  require_products(file, scatter, mean, rows);
  const bool fourth = file.has("fourth");
  if (fourth != file.has("third")) file.refuse("it has one of 'third' and 'fourth', but not the other");
  Moments moments(std::move(parts), rows, std::move(mean), std::move(scatter),
                  fourth ? file.vector<double>("third") : std::vector<double>(),
                  fourth ? file.vector<double>("fourth") : std::vector<double>(), read_support(file, rows, dim));
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
  if (moments.parts().empty()) refuse("these moments are of no space; add rows first");
  require_sums(moments);
  const SupportDraw& support = moments.support();
  if (support.wanted().empty() && support.size() != std::min(support.count(), moments.rows())) {
    refuse(
        "these moments are of {} rows, but only {} were looked at for their support of {}; add every row with its id",
        moments.rows(), support.size(), support.count());
  }
}

}  // namespace

void save_moments(const Moments& moments, const std::string& path, bool in_place) {
  require_spaces(moments);
  if (!in_place) require_replaceable(path, ResultKind::moments);
  Matrix64 scatter = moments.scatter();
  mirror(reinterpret_cast<char*>(scatter.cells().data()), moments.dim());
  const SupportTensors support(moments.support());
  io::save_safetensors(path, tensors_of(moments, scatter, support), describe(moments));
}

Moments load_moments(const std::string& path) {
  return read_moments(io::InputFile(path));
}

void moments_to_bytes(const Moments& moments, const std::function<char*(std::size_t)>& place) {
  require_spaces(moments);
  const SupportTensors support(moments.support());
  char* const first = io::safetensors_bytes(tensors_of(moments, moments.scatter(), support), describe(moments), place);
  mirror(first + moments.dim() * sizeof(double), moments.dim());  // after the mean
}

std::string moments_to_bytes(const Moments& moments) {
  std::string bytes;
  moments_to_bytes(moments, [&](std::size_t size) {
    bytes.resize(size);
    return bytes.data();
  });
  return bytes;
}

Moments moments_from_bytes(std::string_view bytes, const std::string& label) {
  return read_moments(io::MemoryBytes(std::as_bytes(std::span(bytes)), label));
}

}  // namespace kedge
