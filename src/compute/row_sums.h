// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/matrix.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace kedge {

/// Adds up rows of float or double, and their products, in float64 and in a device's own memory. One block is added up
/// while the caller fills the next.
template <class T>
class RowSums {
 public:
  virtual ~RowSums() = default;
  /// Memory to put rows into, packed: a matrix for each of `widths`. May wait until the device has read what was there.
  [[nodiscard]] virtual std::vector<MatrixView<T>> buffer(std::size_t number, std::size_t rows) = 0;
  /// Call once, before the first rows are added. The pilot is near the rows, so that their products keep their digits.
  virtual void set_pilot(std::span<const double> pilot) = 0;
  /// All rows of a buffer.
  virtual void add(std::size_t number, std::size_t rows) = 0;
  /// The mean of the rows, and the sum of x^T x of the rows less that mean.
  virtual void finish(std::span<double> mean, MatrixView<double> scatter) = 0;
};

/// Rows are several matrices side by side, of these widths. `device` must be off the processor, which can sum rows
/// without moving them.
template <class T>
[[nodiscard]] std::unique_ptr<RowSums<T>> make_row_sums(std::span<const std::size_t> widths, std::size_t most_rows,
                                                        std::size_t buffers, Device device);

}  // namespace kedge
