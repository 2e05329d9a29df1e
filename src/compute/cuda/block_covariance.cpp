// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"
#include "base/eigen.h"
#include "compute/covariance.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/dense.h"

#include <algorithm>

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
    const Rows64 vectors = packed(decomposed, count, dim_), within_spaces = packed(products, count, dim_);
    std::size_t first = 0;
    for (const std::size_t dim : dims_) {
      dense_.multiply(1, vectors.middle_cols(first, dim), CUBLAS_OP_N,
                      all.middle_rows(first, dim).middle_cols(first, dim), CUBLAS_OP_N,
                      within_spaces.middle_cols(first, dim));
      first += dim;
    }
    Matrix64 within(count, dim_);
    dense_.copy(vectors, found.pairs.vectors.view());
    dense_.copy(within_spaces, within.view());
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

}  // namespace kedge::cuda
