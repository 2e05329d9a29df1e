// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/eigen.h"

#include <concepts>
#include <cstddef>

namespace kedge {

/// One side of a product: a matrix of ours or of Eigen's, or its transpose, whose rows lie in memory.
template <class T>
struct Factor {
  const T* data;
  std::size_t rows, cols;  ///< as they lie in memory
  std::size_t stride;
  bool transposed = false;

  Factor(MatrixView<const T> cells) : data(cells.data), rows(cells.rows), cols(cells.cols), stride(cells.stride) {}
  Factor(MatrixView<T> cells) : Factor(MatrixView<const T>(cells)) {}
  template <class Cells>
  requires(std::same_as<typename Cells::Scalar, T> && (Cells::Flags & Eigen::DirectAccessBit) != 0)
      Factor(const Eigen::MatrixBase<Cells>& cells)
      : data(cells.derived().data()),
        rows(static_cast<std::size_t>(cells.outerSize())),
        cols(static_cast<std::size_t>(cells.innerSize())),
        stride(static_cast<std::size_t>(cells.derived().outerStride())),
        transposed(!Cells::IsRowMajor) {
    static_assert(Cells::InnerStrideAtCompileTime == 1, "BLAS reads rows whose values lie side by side");
  }
};

/// Where a product goes: rows that lie in memory.
template <class T>
struct Target {
  T* data;
  std::size_t rows, cols, stride;

  Target(MatrixView<T> cells) : data(cells.data), rows(cells.rows), cols(cells.cols), stride(cells.stride) {}
  template <class Cells>
  requires(std::same_as<typename Cells::Scalar, T>&& Cells::IsRowMajor != 0 && (Cells::Flags & Eigen::LvalueBit) != 0)
      Target(Eigen::MatrixBase<Cells>& cells)
      : data(cells.derived().data()),
        rows(static_cast<std::size_t>(cells.rows())),
        cols(static_cast<std::size_t>(cells.cols())),
        stride(static_cast<std::size_t>(cells.derived().outerStride())) {
    static_assert(Cells::InnerStrideAtCompileTime == 1, "BLAS writes rows whose values lie side by side");
  }
};

// Products by BLAS. Eigen's operator does the same, but every file that uses it compiles Eigen's own products too, at a
// second or more for each. A target may not overlap a factor. Shapes that do not fit are an Error(Code::failed).

/// a b
[[nodiscard]] EigenRows<float> product(const Factor<float>& a, const Factor<float>& b);
[[nodiscard]] EigenRows<double> product(const Factor<double>& a, const Factor<double>& b);
/// to = scale a b
void set_product(const Target<float>& to, const Factor<float>& a, const Factor<float>& b, float scale = 1);
void set_product(const Target<double>& to, const Factor<double>& a, const Factor<double>& b, double scale = 1);
/// to += scale a b
void add_product(const Target<float>& to, const Factor<float>& a, const Factor<float>& b, float scale = 1);
void add_product(const Target<double>& to, const Factor<double>& a, const Factor<double>& b, double scale = 1);

/// Over the rows; Eigen's own sum would walk down every column.
[[nodiscard]] Eigen::RowVectorXf column_sums(const Factor<float>& rows);
[[nodiscard]] Eigen::RowVectorXd column_sums(const Factor<double>& rows);
[[nodiscard]] Eigen::RowVectorXf column_means(const Factor<float>& rows);
[[nodiscard]] Eigen::RowVectorXd column_means(const Factor<double>& rows);

/// y = weight x + bias, row by row.
void apply_affine(MatrixView<const float> weight, std::span<const float> bias, MatrixView<const float> x,
                  MatrixView<float> y);

enum class Triangle { upper, lower };
/// to += scale rows^T rows, one triangle of it. The rows may not overlap it.
void add_gram(MatrixView<double> to, Triangle triangle, MatrixView<const double> rows, double scale = 1);
/// Copies the lower triangle of a square matrix to the upper one.
void mirror_lower(MatrixView<double> square);

}  // namespace kedge
