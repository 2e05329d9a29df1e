// SPDX-License-Identifier: Apache-2.0
#include "compute/covariance.h"

#include "base/arithmetic.h"
#include "base/eigen.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/dense.h"

#include <algorithm>
#include <mutex>
#include <numeric>

namespace kedge::cuda {
namespace {

class CovarianceOnGpu final : public BlockCovariance {
 public:
  CovarianceOnGpu(MatrixView<const double> scatter, double share,
                  std::span<const std::shared_ptr<const ChangeOfBasis>> bases, std::span<const std::size_t> dims)
      : dim_(scatter.rows), dims_(dims.begin(), dims.end()), covariance_(dense_.copy_of(scatter)) {
    const Rows64 all = square(covariance_);
    mirror(all, share, dense_.stream());
    std::size_t first = 0;
    for (std::size_t i = 0; i < dims.size(); first += dims[i], ++i) {
      dense_.apply_to_rows(*bases[i], all.middle_cols(first, dims[i]));
      dense_.apply_to_columns(*bases[i], all.middle_rows(first, dims[i]));
    }
  }

  [[nodiscard]] Directions leading(std::size_t count) const override {
    require();
    count = std::min(count, dim_);
    const Rows64 all = square(covariance_);
    const DeviceArray<double> decomposed = dense_.copy_of(all), products(checked_mul(count, dim_));
    Directions found{{dense_.decompose(square(decomposed), count), Matrix64(count, dim_)}, std::vector<double>(count)};
    const Rows64 vectors = packed(decomposed, count, dim_), within_blocks = packed(products, count, dim_);
    std::size_t first = 0;
    for (const std::size_t dim : dims_) {
      dense_.multiply(1, vectors.middle_cols(first, dim), CUBLAS_OP_N,
                      all.middle_rows(first, dim).middle_cols(first, dim), CUBLAS_OP_N,
                      within_blocks.middle_cols(first, dim));
      first += dim;
    }
    Matrix64 within(count, dim_);
    dense_.copy(vectors, found.pairs.vectors.view());
    dense_.copy(within_blocks, within.view());
    dense_.wait();
    for (std::size_t r = 0; r < count; ++r) {
      found.own_variances[r] = as_eigen(found.pairs.vectors.row(r)).dot(as_eigen(within.row(r)));
    }
    return found;
  }

 private:
  [[nodiscard]] Rows64 square(const DeviceArray<double>& array) const { return packed(array, dim_, dim_); }

  std::size_t dim_;
  std::vector<std::size_t> dims_;
  Dense dense_;
  DeviceArray<double> covariance_;
};

/// Diagonal, by all eigenvectors: a GPU finds them as fast as it would make the matrix tridiagonal.
class DiagonalGram final : public DecomposedGram {
 public:
  /// `gram` is dim x dim; the GPU must be done with it.
  DiagonalGram(const DeviceArray<double>& gram, std::size_t dim, const ChangeOfBasis* basis)
      : dim_(dim), directions_(gram.size()) {
    const Rows64 changed = packed(directions_, dim, dim);
    dense_.copy(packed(gram, dim, dim), changed);
    if (basis != nullptr) {
      dense_.apply_to_rows(*basis, changed);
      dense_.apply_to_columns(*basis, changed);
    }
    values_ = dense_.decompose(changed, dim);
    if (basis != nullptr) dense_.adjoint_to_rows(*basis, changed);
    dense_.wait();
  }

  [[nodiscard]] std::size_t dim() const override { return dim_; }
  [[nodiscard]] std::vector<double> eigenvalues() const override { return values_; }
  void to_inside(MatrixView<double> cross) const override { turn(cross, CUBLAS_OP_N); }
  void to_outside(MatrixView<double> solution) const override { turn(solution, CUBLAS_OP_T); }
  void solve(double k, MatrixView<const double> x, MatrixView<double> y) const override {
    for (std::size_t r = 0; r < dim_; ++r) {
      const double share = 1 / (values_[r] + k);
      const double* const from = x.row(r).data();
      double* const to = y.row(r).data();
      for (std::size_t c = 0; c < x.cols; ++c) to[c] = share * from[c];
    }
  }

 private:
  /// x = the directions, or their transpose, times x.
  void turn(MatrixView<double> x, cublasOperation_t order) const {
    const std::scoped_lock one_at_a_time(lock_);
    require();
    const DeviceArray<double> given = dense_.copy_of(x), turned(given.size());
    dense_.multiply(1, packed(directions_, dim_, dim_), order, packed(given, dim_, x.cols), CUBLAS_OP_N,
                    packed(turned, dim_, x.cols));
    dense_.copy(packed(turned, dim_, x.cols), x);
    dense_.wait();
  }

  std::size_t dim_;
  mutable std::mutex lock_;
  Dense dense_;
  DeviceArray<double> directions_;  ///< a row each, in the coordinates of the rows as they were given
  std::vector<double> values_;
};

class RowsOnGpu final : public CentredRows {
 public:
  RowsOnGpu(MatrixView<const double> rows, std::span<const double> mean)
      : count_(rows.rows), dim_(rows.cols), rows_(dense_.copy_of(rows)), gram_(checked_mul(dim_, dim_)) {
    const DeviceArray<double> taken_off = dense_.copy_of(MatrixView<const double>{mean.data(), 1, dim_, dim_});
    centre(rows_.data(), taken_off.data(), all(), dense_.stream());
    dense_.multiply(share(), all(), CUBLAS_OP_T, all(), CUBLAS_OP_N, packed(gram_, dim_, dim_));
    dense_.wait();
  }

  [[nodiscard]] std::size_t rows() const override { return count_; }
  [[nodiscard]] std::size_t dim() const override { return dim_; }
  [[nodiscard]] std::vector<double> means() const override {
    const std::vector<double> ones(count_, 1.0);
    const Matrix64 means = cross({ones.data(), count_, 1, 1});
    return {means.cells().begin(), means.cells().end()};
  }
  [[nodiscard]] std::vector<double> mean_squares() const override {
    const std::scoped_lock one_at_a_time(lock_);
    require();
    std::vector<double> diagonal(dim_);
    dense_.copy<double>({gram_.data(), dim_, 1, dim_ + 1}, {diagonal.data(), dim_, 1, 1});
    dense_.wait();
    return diagonal;
  }
  [[nodiscard]] Matrix64 times(MatrixView<const double> weights) const override {
    return product(1, CUBLAS_OP_N, weights, CUBLAS_OP_T, count_, weights.rows);
  }
  [[nodiscard]] Matrix64 cross(MatrixView<const double> targets) const override {
    return product(share(), CUBLAS_OP_T, targets, CUBLAS_OP_N, dim_, targets.cols);
  }
  [[nodiscard]] std::shared_ptr<const DecomposedGram> decompose(
      std::shared_ptr<const ChangeOfBasis> basis) const override {
    require();
    return std::make_shared<DiagonalGram>(gram_, dim_, basis.get());
  }

 private:
  [[nodiscard]] Rows64 all() const { return packed(rows_, count_, dim_); }
  [[nodiscard]] double share() const { return 1 / static_cast<double>(count_); }

  /// Of the rows and a matrix of the host.
  [[nodiscard]] Matrix64 product(double scale, cublasOperation_t turn, MatrixView<const double> with,
                                 cublasOperation_t turn_with, std::size_t rows, std::size_t cols) const {
    const std::scoped_lock one_at_a_time(lock_);
    require();
    const DeviceArray<double> own = dense_.copy_of(with), found(checked_mul(rows, cols));
    dense_.multiply(scale, all(), turn, packed(own, with.rows, with.cols), turn_with, packed(found, rows, cols));
    Matrix64 result(rows, cols);
    dense_.copy(packed(found, rows, cols), result.view());
    dense_.wait();
    return result;
  }

  std::size_t count_, dim_;
  mutable std::mutex lock_;
  Dense dense_;
  DeviceArray<double> rows_, gram_;
};

/// cuBLAS counts by columns: packed rows are a dim x rows matrix to it.
template <class T>
class Sums final : public RowSums<T> {
 public:
  Sums(std::span<const std::size_t> dims, std::size_t most_rows, std::size_t buffers)
      : dims_(dims.begin(), dims.end()),
        dim_(std::accumulate(dims.begin(), dims.end(), std::size_t{0})),
        blas_dim_(checked_int(dim_, "the columns of all rows")),
        given_(checked_mul(dim_, most_rows)),
        rows_(given_.size()),
        ones_(most_rows),
        pilot_(dim_),
        sums_(dim_),
        products_(checked_mul(dim_, dim_)),
        slots_(buffers) {
    for (Slot& slot : slots_) slot = {PinnedArray<T>(given_.size()), make_event()};
    const std::vector<double> ones(most_rows, 1.0);
    lane_.copy(ones.data(), ones_.data(), most_rows);
    lane_.clear(sums_.data(), sums_.size());
    lane_.clear(products_.data(), products_.size());
    lane_.wait();  // before the ones go
  }

  std::vector<MatrixView<T>> buffer(std::size_t number, std::size_t rows) override {
    require();
    const Slot& slot = slots_.at(number);
    // An event that was never recorded counts as over.
    check(cudaEventSynchronize(slot.free.get()), "while it summed rows");
    std::vector<MatrixView<T>> parts;
    T* next = slot.values.data();
    for (const std::size_t dim : dims_) {
      parts.push_back({next, rows, dim, dim});
      next += rows * dim;
    }
    return parts;
  }

  void set_pilot(std::span<const double> pilot) override {
    about_.assign(pilot.begin(), pilot.end());
    lane_.copy(about_.data(), pilot_.data(), dim_);
  }

  void add(std::size_t number, std::size_t rows) override {
    const Slot& slot = slots_.at(number);
    lane_.copy(slot.values.data(), given_.data(), rows * dim_);
    check(cudaEventRecord(slot.free.get(), lane_.stream()), "to record an event");
    std::size_t first = 0;
    for (const std::size_t dim : dims_) {
      centre(given_.data() + first * rows, pilot_.data() + first, {rows_.data() + first, rows, dim, dim_},
             lane_.stream());
      first += dim;
    }
    const double one = 1;
    const int count = checked_int(rows, "the rows of a block");
    check(cublasDgemv(lane_.blas(), CUBLAS_OP_N, blas_dim_, count, &one, rows_.data(), blas_dim_, ones_.data(), 1, &one,
                      sums_.data(), 1),
          "to sum rows");
    check(cublasDsyrk(lane_.blas(), CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N, blas_dim_, count, &one, rows_.data(),
                      blas_dim_, &one, products_.data(), blas_dim_),
          "to sum products of rows");
    total_ += rows;
  }

  void finish(std::span<double> mean, MatrixView<double> scatter) override {
    const double minus_share = -1 / static_cast<double>(total_);
    check(cublasDsyr(lane_.blas(), CUBLAS_FILL_MODE_UPPER, blas_dim_, &minus_share, sums_.data(), 1, products_.data(),
                     blas_dim_),
          "to centre products of rows");
    const Rows64 products = packed(products_, dim_, dim_);
    mirror(products, 1, lane_.stream());
    lane_.copy(sums_.data(), mean.data(), dim_);
    lane_.copy(products, scatter);
    lane_.wait();
    for (std::size_t c = 0; c < dim_; ++c) mean[c] = about_[c] + mean[c] / static_cast<double>(total_);
  }

 private:
  struct Slot {
    PinnedArray<T> values;
    Event free;  ///< recorded after the GPU has copied the values
  };

  std::vector<std::size_t> dims_;
  std::size_t dim_;
  int blas_dim_;
  DeviceArray<T> given_;
  DeviceArray<double> rows_, ones_, pilot_, sums_, products_;
  std::vector<double> about_;
  std::vector<Slot> slots_;
  std::size_t total_ = 0;
  Lane lane_;
};

}  // namespace

std::unique_ptr<const BlockCovariance> make_block_covariance(
    MatrixView<const double> scatter, double share, std::span<const std::shared_ptr<const ChangeOfBasis>> bases,
    std::span<const std::size_t> dims) {
  require();
  constexpr std::size_t kMatrices = 5;  // the covariance, its eigenvectors, and about three of its size to work in
  require_free(checked_mul(checked_mul(scatter.rows, scatter.rows), kMatrices * sizeof(double)), "a covariance",
               "give fewer or narrower files at a time");
  return std::make_unique<CovarianceOnGpu>(scatter, share, bases, dims);
}

std::unique_ptr<const CentredRows> centre_rows(MatrixView<const double> rows, std::span<const double> mean) {
  require();
  // Beside the rows: their products, what is made of them, and room to make it in.
  constexpr std::size_t kMatrices = 6;
  require_free(checked_mul(rows.cols, rows.rows + kMatrices * rows.cols) * sizeof(double), "a regression on rows",
               "take fewer rows");
  return std::make_unique<RowsOnGpu>(rows, mean);
}

}  // namespace kedge::cuda

namespace kedge {

template <class T>
std::unique_ptr<RowSums<T>> make_row_sums(std::span<const std::size_t> dims, std::size_t most_rows, std::size_t buffers,
                                          Device) {
  cuda::require();
  const std::size_t dim = std::accumulate(dims.begin(), dims.end(), std::size_t{0});
  cuda::require_free(checked_mul(checked_mul(dim, dim + 2 * most_rows), sizeof(double)), "adding up rows",
                     "give fewer or narrower files at a time");
  return std::make_unique<cuda::Sums<T>>(dims, most_rows, buffers);
}
template std::unique_ptr<RowSums<float>> make_row_sums(std::span<const std::size_t>, std::size_t, std::size_t, Device);
template std::unique_ptr<RowSums<double>> make_row_sums(std::span<const std::size_t>, std::size_t, std::size_t, Device);

}  // namespace kedge
