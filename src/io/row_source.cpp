// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"
#include "io/safetensors.h"

#include <fmt/ranges.h>
#include <kedge/rows.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

namespace kedge {
namespace {

using io::ArrayInfo;
using io::ByteSource;
using io::InputFile;

/// Calls take(row, bytes) for each of `rows` rows that lie one after the other in a file, from this offset on.
template <class Take>
void read_rows(const ByteSource& file, std::size_t offset, std::size_t row_bytes, std::size_t rows, const Take& take) {
  const std::size_t most = std::min(rows, std::max<std::size_t>(1, io::kReadBytes / row_bytes));
  const auto bytes = std::make_unique_for_overwrite<std::byte[]>(most * row_bytes);
  for (std::size_t done = 0; done < rows; done += most) {
    const std::size_t count = std::min(most, rows - done);
    file.read(offset + done * row_bytes, {bytes.get(), count * row_bytes});
    for (std::size_t r = 0; r < count; ++r) take(done + r, std::span(bytes.get() + r * row_bytes, row_bytes));
  }
}

/// A two-dimensional array inside an .npy or .safetensors file.
class ArraySource final : public RowSource {
 public:
  ArraySource(std::shared_ptr<const InputFile> file, ArrayInfo array, std::string label)
      : file_(std::move(file)), array_(std::move(array)), label_(std::move(label)) {
    io::require_matrix(array_, label_);
  }
  std::size_t rows() const override { return array_.shape[0]; }
  std::size_t cols() const override { return array_.shape[1]; }
  const std::string& label() const override { return label_; }
  std::string file() const override { return file_->label(); }
  bool fits_float32() const override { return io::fits_float32(array_.dtype); }

 private:
  void copy_rows(std::size_t first, MatrixView<float> out) const override { read_as(first, out); }
  void copy_rows(std::size_t first, MatrixView<double> out) const override { read_as(first, out); }

  template <class T>
  void read_as(std::size_t first, MatrixView<T> out) const {
    if (array_.fortran_order) {
      std::vector<T> column(out.rows);
      for (std::size_t c = 0; c < cols(); ++c) {
        io::read_values(*file_, array_, c * rows() + first, std::span(column));
        for (std::size_t r = 0; r < out.rows; ++r) out.row(r)[c] = column[r];
      }
    } else if (out.stride == out.cols) {
      io::read_values(*file_, array_, first * cols(), std::span(out.data, out.rows * out.cols));
    } else {
      const std::size_t row_bytes = cols() * io::size_of(array_.dtype);
      read_rows(*file_, array_.offset + first * row_bytes, row_bytes, out.rows,
                [&](std::size_t row, std::span<const std::byte> bytes) {
                  io::convert(bytes.data(), array_.dtype, array_.swapped, out.row(row));
                });
    }
  }

  std::shared_ptr<const InputFile> file_;
  ArrayInfo array_;
  std::string label_;
};

class FvecsSource final : public RowSource {
 public:
  explicit FvecsSource(const std::string& path) : file_(path), info_(io::parse_fvecs(file_)) {}
  std::size_t rows() const override { return info_.rows; }
  std::size_t cols() const override { return info_.cols; }
  const std::string& label() const override { return file_.label(); }
  std::string file() const override { return file_.label(); }
  bool fits_float32() const override { return true; }

 private:
  void copy_rows(std::size_t first, MatrixView<float> out) const override { read_as(first, out); }
  void copy_rows(std::size_t first, MatrixView<double> out) const override { read_as(first, out); }

  template <class T>
  void read_as(std::size_t first, MatrixView<T> out) const {
    constexpr bool kSwapped = std::endian::native != std::endian::little;
    read_rows(file_, first * info_.row_bytes(), info_.row_bytes(), out.rows,
              [&](std::size_t row, std::span<const std::byte> bytes) {
                io::convert(io::fvecs_values(bytes, info_, first + row, label()), io::DType::f32, kSwapped,
                            out.row(row));
              });
  }

  InputFile file_;
  io::FvecsInfo info_;
};

bool is_safetensors(const std::string& path) {
  return io::split_tensor(path).first.ends_with(".safetensors");
}
bool holds_arrays(const std::string& path) {
  return is_safetensors(path) || path.ends_with(".npy");
}

[[noreturn]] void refuse_extension(const std::string& path, std::string_view known) {
  refuse_file("cannot read '{}': its name must end in {}", path, known);
}

struct FileArray {
  std::shared_ptr<const InputFile> file;
  ArrayInfo array;
};

/// The array of an .npy file, or one of a .safetensors file.
FileArray open_array(const std::string& label) {
  if (!holds_arrays(label)) refuse_extension(label, ".npy or .safetensors (#tensor)");
  const auto [path, name] = io::split_tensor(label);
  auto file = std::make_shared<const InputFile>(path);
  if (!is_safetensors(label)) return {file, io::parse_npy(*file)};
  const io::SafetensorsInfo info = io::parse_safetensors(*file);
  if (!name.empty()) return {file, info.tensor(name, path)};
  if (info.tensors.size() == 1) return {file, info.tensors.begin()->second};
  refuse_file("{}: it holds {} tensors; say which as '{}#NAME' with one of: {}", path, info.tensors.size(), path,
              info.names());
}

template <class T>
void require_inside(const RowSource& source, std::size_t first, MatrixView<T> out) {
  if (first <= source.rows() && out.rows <= source.rows() - first && out.cols == source.cols()) return;
  refuse("{}: asked for {} rows of {} values from row {} on, but it has {} rows of {}", source.label(), out.rows,
         out.cols, first, source.rows(), source.cols());
}

/// All values of an array of integers, in the order they are stored.
std::vector<std::int64_t> read_all(const FileArray& from, const std::string& path) {
  std::vector<std::int64_t> values(from.array.bytes / io::size_of(from.array.dtype));
  io::read_values(*from.file, from.array, 0, std::span(values));
  if (from.array.dtype != io::DType::u64) return values;
  const auto wrapped = std::ranges::find_if(values, [](std::int64_t value) { return value < 0; });
  if (wrapped == values.end()) return values;
  refuse_file(
      "{}: it holds {}, which is more than an int64 takes; write it with array.astype('int64') after looking where "
      "such a number comes from",
      path, static_cast<std::uint64_t>(*wrapped));
}

/// A file of labels, row numbers or booleans.
struct List {
  std::vector<std::int64_t> values;
  bool boolean;
};

List read_list(const std::string& path) {
  const FileArray found = open_array(path);
  const auto& shape = found.array.shape;
  if (!io::is_integer(found.array.dtype) || (shape.size() != 1 && !(shape.size() == 2 && shape[1] == 1))) {
    refuse_file(
        "{}: expected a one-dimensional array of integers, found {} dimension(s) of {}; write it with "
        "array.astype('int64').ravel()",
        path, shape.size(), io::to_string(found.array.dtype));
  }
  return {read_all(found, path), found.array.boolean};
}

// Both lists of types begin with the same ones, so that one can be cast to the other.
static_assert(static_cast<int>(ArrayView::Type::f64) == static_cast<int>(io::DType::f64));
static_assert(static_cast<int>(ArrayView::Type::u8) == static_cast<int>(io::DType::u8));

/// Puts values that are `step` bytes apart side by side. A width known at compile time makes each copy one instruction.
template <std::size_t kWidth>
void gather_values(const std::byte* from, std::ptrdiff_t step, std::span<std::byte> to) {
  std::ptrdiff_t offset = 0;  // a pointer that moves would end up outside of the memory
  for (std::size_t i = 0; i < to.size(); i += kWidth, offset += step) {
    std::memcpy(to.data() + i, from + offset, kWidth);
  }
}

void gather(const std::byte* from, std::ptrdiff_t step, std::size_t width, std::span<std::byte> to) {
  switch (width) {
    case 1: return gather_values<1>(from, step, to);
    case 2: return gather_values<2>(from, step, to);
    case 4: return gather_values<4>(from, step, to);
    default: return gather_values<8>(from, step, to);
  }
}

class MemorySource final : public RowSource {
 public:
  MemorySource(ArrayView array, std::string label)
      : array_(array),
        data_(static_cast<const std::byte*>(array.data)),
        dtype_(static_cast<io::DType>(array.type)),
        width_(io::size_of(dtype_)),
        label_(std::move(label)) {}
  std::size_t rows() const override { return array_.rows; }
  std::size_t cols() const override { return array_.cols; }
  const std::string& label() const override { return label_; }
  bool fits_float32() const override { return io::fits_float32(dtype_); }

 private:
  void copy_rows(std::size_t first, MatrixView<float> out) const override { read_as(first, out); }
  void copy_rows(std::size_t first, MatrixView<double> out) const override { read_as(first, out); }

  const std::byte* row(std::size_t r) const { return data_ + static_cast<std::ptrdiff_t>(r) * array_.row_bytes; }

  template <class T>
  void read_as(std::size_t first, MatrixView<T> out) const {
    if (out.rows == 0 || out.cols == 0) return;
    const bool row_in_one = array_.col_bytes == static_cast<std::ptrdiff_t>(width_) || out.cols == 1;
    if (row_in_one && array_.row_bytes == static_cast<std::ptrdiff_t>(width_ * out.cols) && out.stride == out.cols) {
      io::convert(row(first), dtype_, array_.swapped, std::span(out.data, out.rows * out.cols));
      return;
    }
    std::vector<std::byte> side_by_side(row_in_one ? 0 : width_ * out.cols);
    for (std::size_t r = 0; r < out.rows; ++r) {
      const std::byte* values = row(first + r);
      if (!row_in_one) {
        gather(values, array_.col_bytes, width_, side_by_side);
        values = side_by_side.data();
      }
      io::convert(values, dtype_, array_.swapped, out.row(r));
    }
  }

  ArrayView array_;
  const std::byte* data_;
  io::DType dtype_;
  std::size_t width_;
  std::string label_;
};

template <class T>
ArrayView as_array(MatrixView<const T> matrix) {
  const auto type = std::is_same_v<T, float> ? ArrayView::Type::f32 : ArrayView::Type::f64;
  const auto row_bytes = static_cast<std::ptrdiff_t>(matrix.stride * sizeof(T));
  return {matrix.data, type, matrix.rows, matrix.cols, row_bytes, sizeof(T), false};
}

}  // namespace

void RowSource::read(std::size_t first, MatrixView<float> out) const {
  require_inside(*this, first, out);
  copy_rows(first, out);
}
void RowSource::read(std::size_t first, MatrixView<double> out) const {
  require_inside(*this, first, out);
  copy_rows(first, out);
}

std::shared_ptr<const RowSource> open_rows(const std::string& path) {
  if (holds_arrays(path)) {
    auto [file, array] = open_array(path);
    return std::make_shared<ArraySource>(std::move(file), std::move(array), path);
  }
  if (path.ends_with(".fvecs")) return std::make_shared<FvecsSource>(path);
  const std::string known = ".npy, .safetensors (or .safetensors#tensor) or .fvecs";
  const bool parquet = path.find(".parquet") != std::string::npos;
  refuse_extension(
      path, by_vocabulary(known,
                          known + (parquet ? "; of the commands, only transform and translate read Parquet, so do this "
                                             "in Python, which does, or save the column as .npy"
                                           : ""),
                          ".npy, .safetensors (or .safetensors#tensor), .fvecs or .parquet (or .parquet#column)"));
}

ShapedRows open_shaped_rows(const std::string& path) {
  if (!holds_arrays(path)) return {open_rows(path), {}};
  auto [file, array] = open_array(path);
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
  return read_list(path).values;
}

std::vector<std::int64_t> read_integer_rows(const std::string& path, std::size_t cols, const char* what) {
  const FileArray found = open_array(path);
  const ArrayInfo& array = found.array;
  if (!io::is_integer(array.dtype) || array.boolean || array.shape.size() != 2 || array.shape[1] != cols) {
    refuse_file("{}: expected integers in rows of {} ({}), found [{}] of {}", path, cols, what,
                fmt::join(array.shape, " x "), array.boolean ? "booleans" : io::to_string(array.dtype));
  }
  std::vector<std::int64_t> values = read_all(found, path);
  if (!array.fortran_order) return values;
  std::vector<std::int64_t> rows(values.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = values[i % cols * array.shape[0] + i / cols];
  return rows;
}

RowIds read_row_ids(const std::string& path) {
  auto [values, boolean] = read_list(path);
  if (!boolean) {
    if (values.empty()) refuse_file("{}: it holds no row numbers", path);
    return {std::move(values), {}};
  }
  RowIds rows{{}, values.size()};
  for (std::size_t row = 0; row < values.size(); ++row) {
    if (values[row] != 0) rows.ids.push_back(static_cast<std::int64_t>(row));
  }
  if (rows.ids.empty()) refuse_file("{}: its mask chooses no row", path);
  return rows;
}

std::shared_ptr<const RowSource> view_rows(ArrayView array, std::string label) {
  return std::make_shared<MemorySource>(array, std::move(label));
}

std::shared_ptr<const RowSource> view_rows(MatrixView<const float> matrix, std::string label) {
  return view_rows(as_array(matrix), std::move(label));
}

std::shared_ptr<const RowSource> view_rows(MatrixView<const double> matrix, std::string label) {
  return view_rows(as_array(matrix), std::move(label));
}

}  // namespace kedge
