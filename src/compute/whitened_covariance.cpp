// SPDX-License-Identifier: Apache-2.0
#include "compute/whitened_covariance.h"

#include "compute/products.h"
#include "base/eigen.h"

#include <utility>

namespace kedge {
namespace {

/// Of a symmetric matrix: its upper triangle, and each space's own block whole.
Matrix64 whitened(Matrix64 covariance, std::span<const std::shared_ptr<const Whitener>> whiteners,
                  std::span<const std::size_t> dims) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < dims.size(); first += dims[i], ++i) {
    // From a space's own block to the last column, the rows of the space are one matrix.
    const auto rows = covariance.view().middle_rows(first, dims[i]).middle_cols(first, covariance.cols() - first);
    whiteners[i]->whiten_columns(rows);
    std::size_t column = 0;
    for (std::size_t j = i; j < dims.size(); column += dims[j], ++j) {
      whiteners[j]->whiten_rows(rows.middle_cols(column, dims[j]));
    }
  }
  return covariance;
}

class CovarianceInMemory final : public WhitenedCovariance {
 public:
  CovarianceInMemory(Matrix64 whitened, std::span<const std::size_t> dims)
      : whitened_(std::move(whitened)), dims_(dims.begin(), dims.end()) {}

  [[nodiscard]] Directions leading(std::size_t count) const override {
    Directions found{eigh_largest(whitened_, count), {}};
    found.own_variances = own_variances(found.pairs.vectors);
    return found;
  }

 private:
  [[nodiscard]] std::vector<double> own_variances(const Matrix64& directions) const {
    std::vector<double> own(directions.rows());
    std::size_t first = 0;
    for (const std::size_t dim : dims_) {
      const auto part = directions.view().middle_cols(first, dim);
      const EigenRows<double> turned = product(part, whitened_.view().middle_rows(first, dim).middle_cols(first, dim));
      for (std::size_t r = 0; r < own.size(); ++r) {
        own[r] += turned.row(static_cast<Eigen::Index>(r)).dot(as_eigen(part.row(r)));
      }
      first += dim;
    }
    return own;
  }

  Matrix64 whitened_;
  std::vector<std::size_t> dims_;
};

}  // namespace

std::unique_ptr<const WhitenedCovariance> whiten_covariance(Matrix64 covariance,
                                                            std::span<const std::shared_ptr<const Whitener>> whiteners,
                                                            std::span<const std::size_t> dims) {
  return std::make_unique<CovarianceInMemory>(whitened(std::move(covariance), whiteners, dims), dims);
}

}  // namespace kedge
