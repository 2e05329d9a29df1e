// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/matrix.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace kedge {

/// Adds up rows of float or double, and their products, in float64 and in a device's own memory. A block is summed up
/// while the caller fills the next.
template <class T>
class RowSums {
 public:
  virtual ~RowSums() = default;
  /// Where rows are to be put, packed: a matrix for each of `widths`. May wait for the device to be done with what was
  /// there.
  [[nodiscard]] virtual std::vector<MatrixView<T>> buffer(std::size_t number, std::size_t rows) = 0;
  /// Once, before the first rows are added: about where they lie, so that their products keep their digits.
  virtual void set_pilot(std::span<const double> pilot) = 0;
  /// All rows of a buffer.
  virtual void add(std::size_t number, std::size_t rows) = 0;
  /// The mean of the rows, and the sum of x^T x of the rows less that mean.
  virtual void finish(std::span<double> mean, MatrixView<double> scatter) = 0;
};

/// Rows are several matrices side by side, of these widths. `device` must be off the processor: rows that are
/// in its memory already are summed where they are.
template <class T>
[[nodiscard]] std::unique_ptr<RowSums<T>> make_row_sums(std::span<const std::size_t> widths, std::size_t most_rows,
                                                        std::size_t buffers, Device device);

}  // namespace kedge
