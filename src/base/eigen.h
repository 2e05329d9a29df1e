// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <Eigen/Core>

namespace kedge {

template <class T>
using EigenRows = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A matrix of ours, seen by Eigen without a copy.
template <class T>
[[nodiscard]] auto as_eigen(MatrixView<T> m) {
  using Value = std::remove_const_t<T>;
  using Cells = std::conditional_t<std::is_const_v<T>, const EigenRows<Value>, EigenRows<Value>>;
  return Eigen::Map<Cells, Eigen::Unaligned, Eigen::OuterStride<>>(
      m.data, static_cast<Eigen::Index>(m.rows), static_cast<Eigen::Index>(m.cols),
      Eigen::OuterStride<>(static_cast<Eigen::Index>(m.stride)));
}

/// A row vector of ours, seen by Eigen without a copy.
template <class T>
[[nodiscard]] auto as_eigen(std::span<T> v) {
  using Value = std::remove_const_t<T>;
  using Cells = Eigen::Matrix<Value, 1, Eigen::Dynamic>;
  return Eigen::Map<std::conditional_t<std::is_const_v<T>, const Cells, Cells>>(v.data(),
                                                                                static_cast<Eigen::Index>(v.size()));
}

/// What Eigen computes, as a matrix of ours.
template <class T, class Cells>
[[nodiscard]] BasicMatrix<T> matrix_of(const Eigen::MatrixBase<Cells>& cells) {
  BasicMatrix<T> matrix(static_cast<std::size_t>(cells.rows()), static_cast<std::size_t>(cells.cols()));
  as_eigen(matrix.view()) = cells.template cast<T>();
  return matrix;
}

/// A matrix of Eigen's, seen as one of ours without a copy.
template <class T>
[[nodiscard]] MatrixView<T> view_of(EigenRows<T>& m) {
  const auto cols = static_cast<std::size_t>(m.cols());
  return {m.data(), static_cast<std::size_t>(m.rows()), cols, cols};
}
template <class T>
[[nodiscard]] MatrixView<const T> view_of(const EigenRows<T>& m) {
  return view_of(const_cast<EigenRows<T>&>(m));
}

}  // namespace kedge
