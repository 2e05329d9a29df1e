// SPDX-License-Identifier: Apache-2.0
#include "compute/kernel.h"

#include "base/arithmetic.h"
#include "base/parallel.h"
#include "base/rows.h"
#include "compute/cpu/kernels.h"
#include "compute/cuda/cuda.h"
#include "compute/products.h"
#include "compute/threads.h"

#include <cblas.h>
#include <lapacke.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

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

/// One matrix holds both: the cosines above the diagonal, the factor on it and below.
class CpuSystem final : public KernelSystem {
 public:
  explicit CpuSystem(MatrixView<const float> rows)
      : matrix_(rows.rows, rows.rows), dim_(checked_int(rows.rows, "the rows of a kernel")), squares_(rows.rows) {
    // Some columns at a time, as all of them in float64 may take as much memory as the matrix does.
    constexpr std::size_t kColumns = 256;
    for (std::size_t first = 0; first < rows.cols; first += kColumns) {
      add_products(rows.middle_cols(first, std::min(kColumns, rows.cols - first)));
    }
    for (std::size_t i = 0; i < rows.rows; ++i) squares_[i] = matrix_.row(i)[i];
  }

  bool factor(double width, double ridge) override {
    fill(width, ridge);
    double largest = 0;
    for (std::size_t i = 0; i < matrix_.rows(); ++i) largest = std::max(largest, matrix_.row(i)[i]);
    if (!decompose()) return false;
    // A pivot as small as the rounding error may be nothing else.
    const double least = largest * static_cast<double>(dim_) * std::numeric_limits<double>::epsilon();
    for (std::size_t i = 0; i < matrix_.rows(); ++i) {
      if (!(matrix_.row(i)[i] * matrix_.row(i)[i] > least)) return false;
    }
    return true;
  }

  void solve(MatrixView<double> x) const override {
    solve_lower(CblasNoTrans, 0, x);
    solve_lower(CblasTrans, 0, x);
  }

  /// The squared lengths of columns of the factor's inverse. A column begins at its position, so those that lie
  /// together are solved for together, without what is above the first of them.
  std::vector<double> inverse_diagonal(std::span<const std::size_t> positions) const override {
    constexpr std::size_t kTogether = 256;
    std::vector<double> result;
    result.reserve(positions.size());
    std::vector<double> columns;
    for (; !positions.empty(); positions = positions.subspan(std::min(kTogether, positions.size()))) {
      const auto some = positions.first(std::min(kTogether, positions.size()));
      const std::size_t first = some.front(), below = matrix_.rows() - first;
      columns.assign(checked_mul(below, some.size()), 0.0);
      const MatrixView<double> x{columns.data(), below, some.size(), some.size()};
      for (std::size_t c = 0; c < some.size(); ++c) x.row(some[c] - first)[c] = 1;
      solve_lower(CblasNoTrans, first, x);
      const Eigen::RowVectorXd lengths = as_eigen(x).colwise().squaredNorm();
      result.insert(result.end(), lengths.begin(), lengths.end());
    }
    return result;
  }

 private:
  void add_products(MatrixView<const float> columns) {
    const Matrix64 turned = matrix_of<double>(as_eigen(columns).transpose());
    add_gram(matrix_.view(), Triangle::upper, turned.view());
  }

  /// By panels: during a call no other operation gets at BLAS, and one call for 10,000 rows would take many seconds.
  bool decompose() {
    constexpr int kPanel = 256;
    for (int first = 0; first < dim_; first += kPanel) {
      // The lower triangle by rows is the upper one by columns, which needs no copy.
      const BlasCall call;
      const int count = std::min(kPanel, dim_ - first), left = dim_ - first - count;
      double* const corner = &matrix_.row(static_cast<std::size_t>(first))[static_cast<std::size_t>(first)];
      const lapack_int status = LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'U', count, corner, dim_);
      require_lapack_memory(status);
      if (status != 0) return false;
      if (left == 0) return true;
      double* const beside = corner + static_cast<std::ptrdiff_t>(count) * dim_;
      cblas_dtrsm(CblasColMajor, CblasLeft, CblasUpper, CblasTrans, CblasNonUnit, count, left, 1, corner, dim_, beside,
                  dim_);
      cblas_dsyrk(CblasColMajor, CblasUpper, CblasTrans, left, count, -1, beside, dim_, 1, beside + count, dim_);
    }
    return true;
  }

  /// Writes the kernel below the diagonal from the cosines above it, by squares, as cosines are read down columns.
  void fill(double width, double ridge) {
    constexpr std::size_t kSide = 64;
    const std::size_t n = matrix_.rows();
    const auto kernel = [width](double cosine) { return std::exp(width * (cosine - 1)); };
    parallel_blocks(n, kSide, threads(), [&] {
      return [&](std::size_t first, std::size_t count) {
        for (std::size_t left = 0; left <= first; left += kSide) {
          for (std::size_t r = first; r < first + count; ++r) {
            const auto row = matrix_.row(r);
            for (std::size_t c = left; c < std::min(left + kSide, r); ++c) row[c] = kernel(matrix_.row(c)[r]);
          }
        }
        for (std::size_t r = first; r < first + count; ++r) matrix_.row(r)[r] = kernel(squares_[r]) + ridge;
      };
    });
  }

  /// x = L^-1 x, or L^-T x, for the part of the factor L that begins at `first`.
  void solve_lower(CBLAS_TRANSPOSE order, std::size_t first, MatrixView<double> x) const {
    if (x.rows == 0 || x.cols == 0) return;
    const BlasCall call;
    cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, order, CblasNonUnit, static_cast<int>(x.rows),
                checked_int(x.cols, "a matrix's columns"), 1, &matrix_.row(first)[first], dim_, x.data,
                checked_int(x.stride, "a matrix's stride"));
  }

  Matrix64 matrix_;
  int dim_;
  std::vector<double> squares_;  // of the rows' lengths
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

std::unique_ptr<KernelSystem> make_kernel_system(MatrixView<const float> rows, Device device) {
  if (device == Device::cuda) return cuda::make_kernel_system(rows);
  return std::make_unique<CpuSystem>(rows);
}

}  // namespace kedge
