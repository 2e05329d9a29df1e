// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace kedge {

/// Borrowed row-major matrix; the caller keeps the memory alive. Pass by value.
template <class T>
struct MatrixView {
  T* data = nullptr;
  std::size_t rows = 0, cols = 0;
  std::size_t stride = 0;  ///< elements from one row to the next, >= cols

  [[nodiscard]] std::span<T> row(std::size_t i) const { return {data + i * stride, cols}; }
  [[nodiscard]] MatrixView middle_rows(std::size_t first, std::size_t count) const {
    return {data + first * stride, count, cols, stride};
  }
  [[nodiscard]] MatrixView middle_cols(std::size_t first, std::size_t count) const {
    return {data + first, rows, count, stride};
  }
  operator MatrixView<const T>() const requires(!std::is_const_v<T>) { return {data, rows, cols, stride}; }
};

/// a * b; throws Error(Code::failed) where the product does not fit.
[[nodiscard]] std::size_t checked_mul(std::size_t a, std::size_t b);

/// Whether no value is NaN or infinite.
[[nodiscard]] bool all_finite(std::span<const float> values);

/// Owned, dense, row-major matrix. Copies are deep; moves are free.
template <class T>
class BasicMatrix {
 public:
  BasicMatrix() = default;
  /// Zero-filled. Throws Error(Code::failed) if rows * cols overflows.
  BasicMatrix(std::size_t rows, std::size_t cols) : cells_(checked_mul(rows, cols)), rows_(rows), cols_(cols) {}

  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t cols() const { return cols_; }
  [[nodiscard]] std::span<const T> row(std::size_t i) const { return view().row(i); }
  [[nodiscard]] std::span<T> row(std::size_t i) { return view().row(i); }
  [[nodiscard]] std::span<const T> cells() const { return cells_; }
  [[nodiscard]] std::span<T> cells() { return cells_; }
  [[nodiscard]] MatrixView<const T> view() const { return {cells_.data(), rows_, cols_, cols_}; }
  [[nodiscard]] MatrixView<T> view() { return {cells_.data(), rows_, cols_, cols_}; }

 private:
  std::vector<T> cells_;
  std::size_t rows_ = 0, cols_ = 0;
};

using Matrix = BasicMatrix<float>;     ///< embeddings, mixtures, maps
using Matrix64 = BasicMatrix<double>;  ///< statistics

}  // namespace kedge
