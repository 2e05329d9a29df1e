// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/check.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/lane.h"
#include "backend/cuda/memory.h"
#include "base/checked.h"

#include <algorithm>
#include <array>
#include <vector>

namespace kedge::cuda {
namespace {

/// Rows one after the other are, to cuBLAS, columns of a dim x rows matrix X.
class Sums final : public RowSums {
 public:
  Sums(std::size_t dim, std::size_t most_rows)
      : dim_(dim),
        blas_dim_(checked_int(dim, "the dimension of the spaces")),
        rows_(checked_mul(dim, most_rows)),
        ones_(most_rows),
        pilot_(dim),
        sums_(dim),
        products_(checked_mul(dim, dim)) {
    for (Slot& slot : slots_) slot = {PinnedArray<double>(checked_mul(dim, most_rows)), make_event()};
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

  MatrixView<double> buffer(std::size_t rows) override {
    current_ = (current_ + 1) % slots_.size();
    // An event that was never recorded counts as over.
    check(cudaEventSynchronize(slots_[current_].free.get()), "while it summed rows");
    return {slots_[current_].values.data(), rows, dim_, dim_};
  }

  void set_pilot(std::span<const double> pilot) override { upload(pilot, pilot_); }

  void add(std::size_t rows) override {
    const Slot& slot = slots_[current_];
    check(cudaMemcpyAsync(rows_.data(), slot.values.data(), rows * dim_ * sizeof(double), cudaMemcpyHostToDevice,
                          lane_.stream()),
          kCopying);
    check(cudaEventRecord(slot.free.get(), lane_.stream()), "to record an event");
    const double one = 1, minus_one = -1;
    const int count = checked_int(rows, "the rows of a block");
    check(cublasDger(lane_.blas(), blas_dim_, count, &minus_one, pilot_.data(), 1, ones_.data(), 1, rows_.data(),
                     blas_dim_),
          "to centre rows");
    check(cublasDgemv(lane_.blas(), CUBLAS_OP_N, blas_dim_, count, &one, rows_.data(), blas_dim_, ones_.data(), 1, &one,
                      sums_.data(), 1),
          "to sum rows");
    // The lower triangle by columns is our upper one by rows.
    check(cublasDsyrk(lane_.blas(), CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, blas_dim_, count, &one, rows_.data(),
                      blas_dim_, &one, products_.data(), blas_dim_),
          "to sum products of rows");
  }

  void finish(std::span<double> sums, MatrixView<double> products) override {
    lane_.wait();
    check(cudaMemcpy(sums.data(), sums_.data(), dim_ * sizeof(double), cudaMemcpyDeviceToHost), kCopying);
    check(cudaMemcpy2D(products.data, products.stride * sizeof(double), products_.data(), dim_ * sizeof(double),
                       dim_ * sizeof(double), dim_, cudaMemcpyDeviceToHost),
          kCopying);
  }

 private:
  /// On the lane's stream, as that does not wait for copies on another.
  void upload(std::span<const double> from, const DeviceArray<double>& to) const {
    check(cudaMemcpyAsync(to.data(), from.data(), from.size_bytes(), cudaMemcpyHostToDevice, lane_.stream()), kCopying);
  }

  struct Slot {
    PinnedArray<double> values;
    Event free;  ///< recorded after the GPU has copied the values
  };
  static constexpr const char* kCopying = "to copy rows";
  static constexpr const char* kClearing = "to clear memory";

  std::size_t dim_;
  int blas_dim_;
  Lane lane_;
  DeviceArray<double> rows_, ones_, pilot_, sums_, products_;
  std::array<Slot, 2> slots_;
  std::size_t current_ = 0;
};

}  // namespace

std::unique_ptr<RowSums> make_row_sums(std::size_t dim, std::size_t most_rows) {
  require();
  require_free(checked_mul(checked_mul(dim, dim + most_rows), sizeof(double)), "adding up rows",
               "take fewer spaces at a time");
  return std::make_unique<Sums>(dim, most_rows);
}

}  // namespace kedge::cuda
