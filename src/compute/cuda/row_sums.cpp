// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/dense.h"
#include "compute/row_sums.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace kedge::cuda {
namespace {

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
