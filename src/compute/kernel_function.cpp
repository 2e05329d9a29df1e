// SPDX-License-Identifier: Apache-2.0
#include "compute/kernel_function.h"

#include "base/parallel.h"
#include "base/rows.h"
#include "compute/cpu/kernels.h"
#include "compute/products.h"
#include "compute/threads.h"

#include <kedge/device.h>

#include <algorithm>
#include <array>
#include <vector>

namespace kedge {
namespace {

// Rows of x that are taken through the function together, and rows of the function at a time: their products stay in a
// core's cache from one multiplication through the exponential to the next. Measured by bench/kernel_bench.cpp.
constexpr std::size_t kBlockRows = 256, kTile = 512;
// Fewer rows than this are not worth a thread of their own.
constexpr std::size_t kFewRows = 16;

/// What one thread takes a block of rows through.
class Block {
 public:
  Block(const KernelFunction& function, std::size_t rows)
      : function_(function),
        unit_(rows, function.input_dim()),
        centred_(function.projection.rows > 0 ? rows : 0, function.input_dim()),
        curves_(rows * std::min(kTile, function.rows.rows)) {}

  void apply(MatrixView<const float> x, MatrixView<float> y) {
    const auto unit = unit_rows_of(x);
    as_eigen(y).rowwise() = as_eigen(function_.bias);
    add_product(y, unit, as_eigen(function_.weight).transpose());
    const MatrixView<const float> rows = function_.rows;
    for (std::size_t first = 0; first < rows.rows; first += kTile) {
      const std::size_t count = std::min(kTile, rows.rows - first);
      const MatrixView<float> curves{curves_.data(), x.rows, count, count};
      set_product(curves, unit, as_eigen(rows.middle_rows(first, count)).transpose(), function_.width);
      cpu::exp_without_line(std::span(curves_).first(x.rows * count));
      add_product(y, curves, function_.coefficients.middle_rows(first, count));
    }
  }

 private:
  /// f(x)
  MatrixView<float> unit_rows_of(MatrixView<const float> x) {
    const bool project = function_.projection.rows > 0;
    const auto unit = unit_.view().middle_rows(0, x.rows);
    const auto centred = project ? centred_.view().middle_rows(0, x.rows) : unit;
    as_eigen(centred) = as_eigen(x).rowwise() - as_eigen(function_.mean);
    if (project) set_product(unit, centred, function_.projection);
    for (std::size_t r = 0; r < unit.rows; ++r) set_unit(unit.row(r), unit.row(r));
    return unit;
  }

  const KernelFunction& function_;
  Matrix unit_, centred_;
  std::vector<float> curves_;
};

/// Values on the stack if they are few.
class Values {
 public:
  explicit Values(std::size_t count) : many_(count > few_.size() ? count : 0), count_(count) {}
  [[nodiscard]] std::span<float> span() { return {many_.empty() ? few_.data() : many_.data(), count_}; }

 private:
  std::array<float, 4096> few_;
  std::vector<float> many_;
  std::size_t count_;
};

}  // namespace

void apply_kernel(const KernelFunction& function, MatrixView<const float> x, MatrixView<float> y) {
  const Work work;
  const unsigned workers = threads();
  const std::size_t share = (x.rows + workers - 1) / workers;
  const std::size_t rows = std::clamp(share, kFewRows, kBlockRows);
  parallel_blocks(x.rows, rows, workers, [&] {
    return [&, block = Block(function, std::min(rows, x.rows))](std::size_t first, std::size_t count) mutable {
      block.apply(x.middle_rows(first, count), y.middle_rows(first, count));
    };
  });
}

void apply_kernel(const KernelFunction& function, std::span<const float> x, std::span<float> y) {
  const std::size_t dim = function.input_dim();
  Values centred(dim), projected(dim);
  auto unit = centred.span();
  for (std::size_t i = 0; i < dim; ++i) unit[i] = x[i] - function.mean[i];
  if (function.projection.rows > 0) {
    unit = projected.span();
    std::ranges::fill(unit, 0.0F);
    cpu::add_rows(function.projection, centred.span(), unit);
  }
  set_unit(unit, unit);
  std::ranges::copy(function.bias, y.begin());
  cpu::add_dots(function.weight, unit, y);
  std::array<float, kTile> tile;
  for (std::size_t first = 0; first < function.rows.rows; first += kTile) {
    const auto curves = std::span(tile).first(std::min(kTile, function.rows.rows - first));
    std::ranges::fill(curves, 0.0F);
    cpu::add_dots(function.rows.middle_rows(first, curves.size()), unit, curves);
    for (float& value : curves) value *= function.width;
    cpu::exp_without_line(curves);
    cpu::add_rows(function.coefficients.middle_rows(first, curves.size()), curves, y);
  }
}

}  // namespace kedge
