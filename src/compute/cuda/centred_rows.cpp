// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"
#include "compute/covariance.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/dense.h"

#include <mutex>
#include <utility>

namespace kedge::cuda {
namespace {

/// Diagonal, by all eigenvectors: a GPU finds them as fast as it would make the matrix tridiagonal.
class DiagonalGram final : public DecomposedGram {
 public:
  /// `gram` is dim x dim; the GPU must be done with it.
  DiagonalGram(const DeviceArray<double>& gram, std::size_t dim, const ChangeOfBasis* basis)
      : dim_(dim), directions_(gram.size()) {
    const Block changed = packed(directions_, dim, dim);
    dense_.copy(packed(gram, dim, dim), changed);
    if (basis != nullptr) {
      dense_.apply_to_columns(*basis, changed);
      dense_.apply_to_rows(*basis, changed);
    }
    values_ = dense_.decompose(changed, dim);
    if (basis != nullptr) dense_.adjoint_to_columns(*basis, changed);
    dense_.wait();
  }

  [[nodiscard]] std::size_t dim() const override { return dim_; }
  [[nodiscard]] std::vector<double> eigenvalues() const override { return values_; }
  void to_inside(MatrixView<double> cross) const override { turn(cross, Dense::Side::plain); }
  void to_outside(MatrixView<double> solution) const override { turn(solution, Dense::Side::turned); }
  void solve(double k, MatrixView<const double> x, MatrixView<double> y) const override {
    for (std::size_t r = 0; r < dim_; ++r) {
      const double share = 1 / (values_[r] + k);
      const double* const from = x.row(r).data();
      double* const to = y.row(r).data();
      for (std::size_t c = 0; c < x.cols; ++c) to[c] = share * from[c];
    }
  }

 private:
  /// x, whose rows are columns there, times the directions or their transpose.
  void turn(MatrixView<double> x, Dense::Side side) const {
    const std::scoped_lock one_at_a_time(lock_);
    require();
    const DeviceArray<double> given = dense_.upload(x), turned(given.size());
    dense_.multiply(1, packed(given, x.cols, dim_), Dense::Side::plain, packed(directions_, dim_, dim_), side,
                    packed(turned, x.cols, dim_));
    dense_.download(packed(turned, x.cols, dim_), x);
  }

  std::size_t dim_;
  mutable std::mutex lock_;
  Dense dense_;
  DeviceArray<double> directions_;  ///< by column, in the coordinates of the rows as they were given
  std::vector<double> values_;
};

class RowsOnGpu final : public CentredRows {
 public:
  RowsOnGpu(MatrixView<const double> rows, std::span<const double> mean)
      : count_(rows.rows), dim_(rows.cols), rows_(dense_.upload(rows)), gram_(checked_mul(dim_, dim_)) {
    const DeviceArray<double> taken_off = dense_.upload({mean.data(), 1, dim_, dim_});
    centre(rows_.data(), taken_off.data(), all(), dense_.stream());
    dense_.multiply(share(), all(), Dense::Side::plain, all(), Dense::Side::turned, packed(gram_, dim_, dim_));
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
    dense_.download({gram_.data(), 1, dim_, dim_ + 1}, {diagonal.data(), dim_, 1, 1});
    return diagonal;
  }
  [[nodiscard]] Matrix64 times(MatrixView<const double> weights) const override {
    const std::scoped_lock one_at_a_time(lock_);
    require();
    const DeviceArray<double> own = dense_.upload(weights), found(checked_mul(weights.rows, count_));
    dense_.multiply(1, packed(own, dim_, weights.rows), Dense::Side::turned, all(), Dense::Side::plain,
                    packed(found, weights.rows, count_));
    Matrix64 result(count_, weights.rows);
    dense_.download(packed(found, weights.rows, count_), result.view());
    return result;
  }
  [[nodiscard]] Matrix64 cross(MatrixView<const double> targets) const override {
    const std::scoped_lock one_at_a_time(lock_);
    require();
    const DeviceArray<double> own = dense_.upload(targets), found(checked_mul(targets.cols, dim_));
    dense_.multiply(share(), packed(own, targets.cols, count_), Dense::Side::plain, all(), Dense::Side::turned,
                    packed(found, targets.cols, dim_));
    Matrix64 result(dim_, targets.cols);
    dense_.download(packed(found, targets.cols, dim_), result.view());
    return result;
  }
  [[nodiscard]] std::shared_ptr<const DecomposedGram> decompose(
      std::shared_ptr<const ChangeOfBasis> basis) const override {
    require();
    return std::make_shared<DiagonalGram>(gram_, dim_, basis.get());
  }

 private:
  [[nodiscard]] Block all() const { return packed(rows_, dim_, count_); }
  [[nodiscard]] double share() const { return 1 / static_cast<double>(count_); }

  std::size_t count_, dim_;
  mutable std::mutex lock_;
  Dense dense_;
  DeviceArray<double> rows_, gram_;
};

}  // namespace

std::unique_ptr<const CentredRows> centre_rows(MatrixView<const double> rows, std::span<const double> mean) {
  require();
  // The rows, and what is made of their products and to make it in.
  constexpr std::size_t kMatrices = 6;
  require_free(checked_mul(rows.cols, rows.rows + kMatrices * rows.cols) * sizeof(double), "a regression on rows",
               "take fewer rows");
  return std::make_unique<RowsOnGpu>(rows, mean);
}

}  // namespace kedge::cuda
