// SPDX-License-Identifier: Apache-2.0
#include "compute/block_covariance.h"

#include "compute/cuda/cuda.h"
#include "compute/products.h"

#include <utility>

namespace kedge {
namespace {

/// Of the result, the upper triangle and the blocks on the diagonal are whole.
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

std::unique_ptr<const BlockCovariance> make_block_covariance(
    Matrix64 scatter, double rows, std::span<const std::shared_ptr<const ChangeOfBasis>> bases,
    std::span<const std::size_t> dims, Device device) {
  if (on_gpu(scatter.rows(), device)) return cuda::make_block_covariance(scatter.view(), 1 / rows, bases, dims);
  as_eigen(scatter.view()) /= rows;
  mirror_lower(scatter.view());
  return std::make_unique<CovarianceInMemory>(change_coordinates(std::move(scatter), bases, dims), dims);
}

}  // namespace kedge
