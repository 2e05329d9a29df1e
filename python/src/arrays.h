// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings.h"

#include <kedge/kernel.h>
#include <kedge/matrix.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace kedge::python {

using FloatMatrix = nb::ndarray<nb::numpy, float, nb::ndim<2>>;
/// Read-only, and a view: nothing is copied.
using FloatMatrixView = nb::ndarray<nb::numpy, const float, nb::ndim<2>>;
using FloatsView = nb::ndarray<nb::numpy, const float, nb::ndim<1>>;

/// Keeps what a view looks at alive.
template <class T>
nb::capsule keep(std::shared_ptr<const T> owner) {
  using Owner = std::shared_ptr<const T>;
  return {new Owner(std::move(owner)), [](void* held) noexcept { delete static_cast<Owner*>(held); }};
}

template <class Owner>
FloatMatrixView view_of(const Matrix& matrix, const std::shared_ptr<const Owner>& owner) {
  return {matrix.cells().data(), {matrix.rows(), matrix.cols()}, keep(owner)};
}

template <class Owner>
FloatsView view_of(const std::vector<float>& values, const std::shared_ptr<const Owner>& owner) {
  return {values.data(), {values.size()}, keep(owner)};
}

/// A kernel by the names of docs/format.md; None where there is none.
template <class Owner>
nb::object kernel_to_dict(const std::optional<Kernel>& kernel, const std::shared_ptr<const Owner>& owner) {
  if (!kernel) return nb::none();
  nb::dict result;
  result["width"] = kernel->width;
  result["whitener"] = kernel->whitener.rows() == 0 ? nb::none() : nb::cast(view_of(kernel->whitener, owner));
  result["rows"] = nb::cast(view_of(kernel->rows, owner));
  result["coefficients"] = nb::cast(view_of(kernel->coefficients, owner));
  return result;
}

/// Room for a result, not cleared: every value will be written.
FloatMatrix make_matrix(std::size_t rows, std::size_t cols);

/// A copy.
[[nodiscard]] nb::object make_integers(const std::vector<std::int64_t>& values);

/// A copy, for matrices that come from Python and stay.
using GivenMatrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using GivenFloats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
[[nodiscard]] Matrix to_matrix(const GivenMatrix& given);
[[nodiscard]] std::vector<float> to_floats(const GivenFloats& given);

}  // namespace kedge::python
