// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"
#include "compute/cuda/check.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/dense.h"
#include "compute/cuda/lane.h"
#include "compute/cuda/memory.h"
#include "compute/row_sums.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace kedge::cuda {
namespace {

/// Rows one after the other are, to cuBLAS, columns of a dim x rows matrix X.
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
    upload(ones, ones_);
    check(cudaMemsetAsync(sums_.data(), 0, sums_.size() * sizeof(double), lane_.stream()), kClearing);
    check(cudaMemsetAsync(products_.data(), 0, products_.size() * sizeof(double), lane_.stream()), kClearing);
    lane_.wait();  // the ones are copied from here
  }
  // No memory may go while the GPU still copies from it.
  ~Sums() override { (void)cudaStreamSynchronize(lane_.stream()); }
  Sums(const Sums&) = delete;
  Sums& operator=(const Sums&) = delete;

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
    upload(about_, pilot_);
  }

  void add(std::size_t number, std::size_t rows) override {
    const Slot& slot = slots_.at(number);
    check(cudaMemcpyAsync(given_.data(), slot.values.data(), rows * dim_ * sizeof(T), cudaMemcpyHostToDevice,
                          lane_.stream()),
          kCopying);
    check(cudaEventRecord(slot.free.get(), lane_.stream()), "to record an event");
    std::size_t first = 0;
    for (const std::size_t dim : dims_) {
      centre(given_.data() + first * rows, pilot_.data() + first, {rows_.data() + first, dim, rows, dim_},
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
    mirror({products_.data(), dim_, dim_, dim_}, 1, lane_.stream());
    lane_.wait();
    check(cudaMemcpy(mean.data(), sums_.data(), dim_ * sizeof(double), cudaMemcpyDeviceToHost), kCopying);
    check(cudaMemcpy2D(scatter.data, scatter.stride * sizeof(double), products_.data(), dim_ * sizeof(double),
                       dim_ * sizeof(double), dim_, cudaMemcpyDeviceToHost),
          kCopying);
    for (std::size_t c = 0; c < dim_; ++c) mean[c] = about_[c] + mean[c] / static_cast<double>(total_);
  }

 private:
  /// On the lane's stream, as that does not wait for copies on another.
  void upload(std::span<const double> from, const DeviceArray<double>& to) const {
    check(cudaMemcpyAsync(to.data(), from.data(), from.size_bytes(), cudaMemcpyHostToDevice, lane_.stream()), kCopying);
  }

  struct Slot {
    PinnedArray<T> values;
    Event free;  ///< recorded after the GPU has copied the values
  };
  static constexpr const char* kCopying = "to copy rows";
  static constexpr const char* kClearing = "to clear memory";

  std::vector<std::size_t> dims_;
  std::size_t dim_;
  int blas_dim_;
  Lane lane_;
  DeviceArray<T> given_;
  DeviceArray<double> rows_, ones_, pilot_, sums_, products_;
  std::vector<double> about_;
  std::vector<Slot> slots_;
  std::size_t total_ = 0;
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
