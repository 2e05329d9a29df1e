// SPDX-License-Identifier: Apache-2.0
#include "io/array.h"
#include "io/fvecs.h"
#include "io/mapped_file.h"
#include "io/npy.h"
#include "io/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/error.h>
#include <kedge/rows.h>

#include <bit>
#include <string_view>
#include <utility>

namespace kedge {
namespace {

using io::ArrayInfo;
using io::MappedFile;

/// A two-dimensional array inside a mapped .npy or .safetensors file.
class ArraySource final : public RowSource {
 public:
  ArraySource(std::shared_ptr<const MappedFile> file, ArrayInfo array, std::string label)
      : file_(std::move(file)), array_(std::move(array)), label_(std::move(label)) {
    io::require_float_matrix(array_, label_);
  }
  std::size_t rows() const override { return array_.shape[0]; }
  std::size_t cols() const override { return array_.shape[1]; }
  const std::string& label() const override { return label_; }
  void read(std::size_t first, MatrixView<float> out) const override { read_as(first, out); }
  void read(std::size_t first, MatrixView<double> out) const override { read_as(first, out); }
  void release(std::size_t first, std::size_t count) const override {
    const std::size_t row_bytes = cols() * io::size_of(array_.dtype);
    if (array_.fortran_order) {  // the rows are spread over the whole array
      file_->release(array_.offset, array_.bytes);
    } else {
      file_->release(array_.offset + first * row_bytes, count * row_bytes);
    }
  }

 private:
  template <class T>
  void read_as(std::size_t first, MatrixView<T> out) const {
    const std::byte* values = file_->bytes().data() + array_.offset;
    const std::size_t width = io::size_of(array_.dtype);
    if (array_.fortran_order) {
      std::vector<T> column(out.rows);
      for (std::size_t c = 0; c < cols(); ++c) {
        io::convert(values + (c * rows() + first) * width, array_.dtype, array_.swapped, std::span(column));
        for (std::size_t r = 0; r < out.rows; ++r) out.row(r)[c] = column[r];
      }
    } else if (out.stride == out.cols) {
      io::convert(values + first * cols() * width, array_.dtype, array_.swapped,
                  std::span(out.data, out.rows * out.cols));
    } else {
      for (std::size_t r = 0; r < out.rows; ++r) {
        io::convert(values + (first + r) * cols() * width, array_.dtype, array_.swapped, out.row(r));
      }
    }
  }

  std::shared_ptr<const MappedFile> file_;
  ArrayInfo array_;
  std::string label_;
};

class FvecsSource final : public RowSource {
 public:
  FvecsSource(std::shared_ptr<const MappedFile> file, std::string label)
      : file_(std::move(file)), info_(io::parse_fvecs(file_->bytes(), label)), label_(std::move(label)) {}
  std::size_t rows() const override { return info_.rows; }
  std::size_t cols() const override { return info_.cols; }
  const std::string& label() const override { return label_; }
  void read(std::size_t first, MatrixView<float> out) const override { read_as(first, out); }
  void read(std::size_t first, MatrixView<double> out) const override { read_as(first, out); }
  void release(std::size_t first, std::size_t count) const override {
    file_->release(first * info_.row_bytes(), count * info_.row_bytes());
  }

 private:
  template <class T>
  void read_as(std::size_t first, MatrixView<T> out) const {
    constexpr bool kSwapped = std::endian::native != std::endian::little;
    for (std::size_t r = 0; r < out.rows; ++r) {
      io::convert(io::fvecs_row(file_->bytes(), info_, first + r, label_), io::DType::f32, kSwapped, out.row(r));
    }
  }

  std::shared_ptr<const MappedFile> file_;
  io::FvecsInfo info_;
  std::string label_;
};

struct NamedArray {
  std::shared_ptr<const MappedFile> file;
  ArrayInfo array;
};

/// A path may name one tensor of a file, as in weights.safetensors#layer. Both names may themselves hold a '#'.
std::pair<std::string, std::string> split_tensor(const std::string& path) {
  constexpr std::string_view kExtension = ".safetensors";
  const std::size_t dot = path.ends_with(kExtension) ? std::string::npos : path.find(std::string(kExtension) + '#');
  if (dot == std::string::npos) return {path, ""};
  return {path.substr(0, dot + kExtension.size()), path.substr(dot + kExtension.size() + 1)};
}

NamedArray open_tensor(const std::string& label) {
  const auto [path, name] = split_tensor(label);
  auto file = std::make_shared<const MappedFile>(path);
  const io::SafetensorsInfo info = io::parse_safetensors(file->bytes(), path);
  if (!name.empty()) return {file, info.tensor(name, path)};
  if (info.tensors.size() == 1) return {file, info.tensors.begin()->second};
  std::vector<std::string> names;
  for (const auto& entry : info.tensors) names.push_back(entry.first);
  throw Error(Code::bad_file, fmt::format("{}: it holds {} tensors; say which as '{}#NAME' with one of: {}", path,
                                          names.size(), path, fmt::join(names, ", ")));
}

NamedArray open_npy(const std::string& path) {
  auto file = std::make_shared<const MappedFile>(path);
  ArrayInfo array = io::parse_npy(file->bytes(), path);
  return {std::move(file), std::move(array)};
}

bool is_safetensors(const std::string& path) {
  return split_tensor(path).first.ends_with(".safetensors");
}

[[noreturn]] void refuse_extension(const std::string& path, const char* known) {
  throw Error(Code::bad_file, fmt::format("cannot read '{}': its name must end in {}", path, known));
}

}  // namespace

std::shared_ptr<const RowSource> open_rows(const std::string& path) {
  if (is_safetensors(path)) {
    auto [file, array] = open_tensor(path);
    return std::make_shared<ArraySource>(std::move(file), std::move(array), path);
  }
  if (path.ends_with(".npy")) {
    auto [file, array] = open_npy(path);
    return std::make_shared<ArraySource>(std::move(file), std::move(array), path);
  }
  if (path.ends_with(".fvecs")) return std::make_shared<FvecsSource>(std::make_shared<const MappedFile>(path), path);
  refuse_extension(path, ".npy, .safetensors (or .safetensors#tensor) or .fvecs");
}

ShapedRows open_shaped_rows(const std::string& path) {
  if (!is_safetensors(path) && !path.ends_with(".npy")) return {open_rows(path), {}};
  auto [file, array] = is_safetensors(path) ? open_tensor(path) : open_npy(path);
  std::vector<std::size_t> shape;
  if (array.shape.size() > 2 && !array.fortran_order) {
    shape.assign(array.shape.begin() + 1, array.shape.end());
    std::size_t cols = 1;
    for (const std::size_t size : shape) cols = checked_mul(cols, size);
    array.shape = {array.shape[0], cols};
  }
  return {std::make_shared<ArraySource>(std::move(file), std::move(array), path), std::move(shape)};
}

std::vector<std::int64_t> read_integers(const std::string& path) {
  if (!is_safetensors(path) && !path.ends_with(".npy")) refuse_extension(path, ".npy or .safetensors (#tensor)");
  const auto [file, array] = is_safetensors(path) ? open_tensor(path) : open_npy(path);
  const bool integers = io::is_integer(array.dtype);
  const bool column = array.shape.size() == 2 && array.shape[1] == 1;
  if (!integers || (array.shape.size() != 1 && !column)) {
    throw Error(Code::bad_file,
                fmt::format("{}: expected a one-dimensional array of integers, found {} dimension(s) of {}; "
                            "write it with array.astype('int64').ravel()",
                            path, array.shape.size(), io::to_string(array.dtype)));
  }
  std::vector<std::int64_t> result(array.shape[0]);
  io::convert(file->bytes().data() + array.offset, array.dtype, array.swapped, std::span(result));
  return result;
}

}  // namespace kedge
