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
      : dim_(scatter.rows), dims_(dims.begin(), dims.end()), covariance_(dense_.upload(scatter)) {
    const Block all = square(covariance_);
    mirror(all, share, dense_.stream());  // our lower triangle is the upper one here
    std::size_t first = 0;
    for (std::size_t i = 0; i < dims.size(); first += dims[i], ++i) {
      dense_.apply_to_columns(*bases[i], {all.data + first, dims[i], dim_, dim_});
      dense_.apply_to_rows(*bases[i], {all.data + first * dim_, dim_, dims[i], dim_});
    }
  }

  [[nodiscard]] Directions leading(std::size_t count) const override {
    require();
    count = std::min(count, dim_);
    const DeviceArray<double> vectors(covariance_.size()), turned(checked_mul(dim_, count));
    dense_.copy(square(covariance_), square(vectors));
    Directions found{{dense_.decompose(square(vectors), count), Matrix64(count, dim_)}, std::vector<double>(count)};
    std::size_t first = 0;
    for (const std::size_t dim : dims_) {
      dense_.multiply(1, {covariance_.data() + first * (dim_ + 1), dim, dim, dim_}, Dense::Side::plain,
                      {vectors.data() + first, dim, count, dim_}, Dense::Side::plain,
                      {turned.data() + first, dim, count, dim_});
      first += dim;
    }
    dense_.download({vectors.data(), dim_, count, dim_}, found.pairs.vectors.view());
    Matrix64 within(count, dim_);
    dense_.download({turned.data(), dim_, count, dim_}, within.view());
    for (std::size_t r = 0; r < count; ++r) {
      found.own_variances[r] = as_eigen(found.pairs.vectors.row(r)).dot(as_eigen(within.row(r)));
    }
    return found;
  }

 private:
  [[nodiscard]] Block square(const DeviceArray<double>& array) const { return packed(array, dim_, dim_); }

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
