// SPDX-License-Identifier: Apache-2.0
#include "compute/covariance.h"

#include "compute/cuda/cuda.h"
#include "compute/products.h"

#include <mutex>

namespace kedge {
namespace {

Matrix64 changed(Matrix64 gram, const ChangeOfBasis* basis) {
  if (basis == nullptr) return gram;
  basis->apply_to_rows(gram.view());
  basis->apply_to_columns(gram.view());
  return gram;
}

class TridiagonalGram final : public DecomposedGram {
 public:
  TridiagonalGram(Matrix64 gram, std::shared_ptr<const ChangeOfBasis> basis)
      : basis_(std::move(basis)), tridiagonal_(changed(std::move(gram), basis_.get())) {}

  [[nodiscard]] std::size_t dim() const override { return tridiagonal_.dim(); }
  [[nodiscard]] std::vector<double> eigenvalues() const override { return tridiagonal_.eigenvalues(); }
  void to_inside(MatrixView<double> cross) const override {
    if (basis_) basis_->apply_to_columns(cross);
    tridiagonal_.to_inside(cross);
  }
  void solve(double k, MatrixView<const double> x, MatrixView<double> y) const override { tridiagonal_.solve(k, x, y); }
  void to_outside(MatrixView<double> solution) const override {
    tridiagonal_.to_outside(solution);
    if (basis_) basis_->adjoint_to_columns(solution);
  }

 private:
  std::shared_ptr<const ChangeOfBasis> basis_;
  Tridiagonal tridiagonal_;
};

class RowsInMemory final : public CentredRows {
 public:
  RowsInMemory(const Matrix64& rows, std::span<const double> mean) : rows_(rows) {
    as_eigen(rows_.view()).rowwise() -= as_eigen(mean);
  }

  [[nodiscard]] std::size_t rows() const override { return rows_.rows(); }
  [[nodiscard]] std::size_t dim() const override { return rows_.cols(); }
  [[nodiscard]] std::vector<double> means() const override {
    const Eigen::RowVectorXd means = column_means(rows_.view());
    return {means.begin(), means.end()};
  }
  [[nodiscard]] std::vector<double> mean_squares() const override {
    std::vector<double> squares(dim());
    auto sums = as_eigen(std::span(squares));
    for (std::size_t r = 0; r < rows(); ++r) sums += share() * as_eigen(rows_.row(r)).cwiseAbs2();
    return squares;
  }
  [[nodiscard]] Matrix64 times(MatrixView<const double> weights) const override {
    Matrix64 result(rows(), weights.rows);
    set_product(result.view(), rows_.view(), as_eigen(weights).transpose());
    return result;
  }
  [[nodiscard]] Matrix64 cross(MatrixView<const double> targets) const override {
    Matrix64 result(dim(), targets.cols);
    set_product(result.view(), as_eigen(rows_.view()).transpose(), targets, share());
    return result;
  }
  [[nodiscard]] std::shared_ptr<const DecomposedGram> decompose(
      std::shared_ptr<const ChangeOfBasis> basis) const override {
    std::call_once(has_gram_, [this] {
      gram_ = Matrix64(dim(), dim());
      add_gram(gram_.view(), Triangle::lower, rows_.view(), share());
      mirror_lower(gram_.view());
    });
    return decompose_gram(gram_, std::move(basis));
  }

 private:
  [[nodiscard]] double share() const { return 1 / static_cast<double>(rows()); }

  Matrix64 rows_;
  mutable std::once_flag has_gram_;
  mutable Matrix64 gram_;
};

/// Only the upper triangle and the blocks on the diagonal of the result are right.
Matrix64 change_coordinates(Matrix64 covariance, std::span<const std::shared_ptr<const ChangeOfBasis>> bases,
                            std::span<const std::size_t> dims) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < dims.size(); first += dims[i], ++i) {
    // The rows of a block, from its own columns to the last one.
    const auto rows = covariance.view().middle_rows(first, dims[i]).middle_cols(first, covariance.cols() - first);
    bases[i]->apply_to_columns(rows);
    std::size_t column = 0;
    for (std::size_t j = i; j < dims.size(); column += dims[j], ++j) {
      bases[j]->apply_to_rows(rows.middle_cols(column, dims[j]));
    }
  }
  return covariance;
}

class CovarianceInMemory final : public BlockCovariance {
 public:
  CovarianceInMemory(Matrix64 covariance, std::span<const std::size_t> dims)
      : covariance_(std::move(covariance)), dims_(dims.begin(), dims.end()) {}

  [[nodiscard]] Directions leading(std::size_t count) const override {
    Directions found{eigh_largest(covariance_, count), {}};
    found.own_variances = own_variances(found.pairs.vectors);
    return found;
  }

 private:
  [[nodiscard]] std::vector<double> own_variances(const Matrix64& directions) const {
    std::vector<double> own(directions.rows());
    std::size_t first = 0;
    for (const std::size_t dim : dims_) {
      const auto part = directions.view().middle_cols(first, dim);
      const EigenRows<double> turned =
          product(part, covariance_.view().middle_rows(first, dim).middle_cols(first, dim));
      for (std::size_t r = 0; r < own.size(); ++r) {
        own[r] += turned.row(static_cast<Eigen::Index>(r)).dot(as_eigen(part.row(r)));
      }
      first += dim;
    }
    return own;
  }

  Matrix64 covariance_;
  std::vector<std::size_t> dims_;
};

}  // namespace

void ChangeOfBasis::multiply(MatrixView<double> x, bool rows, Cholesky::Side side) const {
  if (factor_) return rows ? factor_->divide_rows(x, side) : factor_->divide_columns(x, side);
  const EigenRows<double> given = as_eigen(x);
  Factor<double> basis(matrix_.view());
  basis.transposed = rows == (side == Cholesky::Side::plain);
  if (rows)
    set_product(x, given, basis);
  else
    set_product(x, basis, given);
}

std::shared_ptr<const DecomposedGram> decompose_gram(Matrix64 gram, std::shared_ptr<const ChangeOfBasis> basis) {
  return std::make_shared<TridiagonalGram>(std::move(gram), std::move(basis));
}

std::unique_ptr<const CentredRows> centre_rows(const Matrix64& rows, std::span<const double> mean, Device device) {
  if (on_gpu(rows.cols(), device)) return cuda::centre_rows(rows.view(), mean);
  return std::make_unique<RowsInMemory>(rows, mean);
}

std::unique_ptr<const BlockCovariance> make_block_covariance(
    Matrix64 scatter, double rows, std::span<const std::shared_ptr<const ChangeOfBasis>> bases,
    std::span<const std::size_t> dims, Device device) {
  if (on_gpu(scatter.rows(), device)) return cuda::make_block_covariance(scatter.view(), 1 / rows, bases, dims);
  as_eigen(scatter.view()) /= rows;
  mirror_lower(scatter.view());
  return std::make_unique<CovarianceInMemory>(change_coordinates(std::move(scatter), bases, dims), dims);
}

}  // namespace kedge
