// SPDX-License-Identifier: Apache-2.0
#include "io/array.h"

#include <kedge/rows.h>

#include <cstring>
#include <type_traits>
#include <utility>

namespace kedge {
namespace {

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
