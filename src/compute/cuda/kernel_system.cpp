// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/check.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/kernel_maps.h"
#include "compute/cuda/lane.h"
#include "compute/cuda/memory.h"
#include "compute/cuda/solver.h"
#include "compute/cuda/upload.h"
#include "compute/kernel_system.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace kedge::cuda {
namespace {

constexpr const char* kFactoring = "to factor a kernel";
constexpr const char* kSolving = "to solve for a kernel's coefficients";
constexpr const char* kCopying = "to copy a kernel's rows";

// Columns that are solved for together.
constexpr std::size_t kTogether = 1024;

/// The factor is the lower triangle by columns, in place of the kernel. Cosines are made anew for each: cuSOLVER may
/// use the other triangle, and they take next to no time here.
class GpuSystem final : public KernelSystem {
 public:
  explicit GpuSystem(MatrixView<const float> rows)
      : size_(rows.rows),
        dim_(static_cast<std::int64_t>(rows.rows)),
        cols_(static_cast<std::int64_t>(rows.cols)),
        solver_(lane_.stream()),
        rows_(checked_mul(rows.rows, rows.cols)),
        matrix_(checked_mul(size_, size_)),
        diagonal_(size_),
        info_(1) {
    const DeviceArray<float> narrow = upload(rows);
    check(cudaDeviceSynchronize(), kCopying);
    widen(lane_.stream(), narrow.data(), rows_.data(), rows_.size());
    lane_.wait();
    std::size_t device_bytes = 0, host_bytes = 0;
    check(cusolverDnXpotrf_bufferSize(solver_.handle.get(), solver_.params.get(), CUBLAS_FILL_MODE_LOWER, dim_,
                                      CUDA_R_64F, matrix_.data(), dim_, CUDA_R_64F, &device_bytes, &host_bytes),
          kFactoring);
    device_work_ = DeviceArray<std::byte>(device_bytes);
    host_work_.resize(host_bytes);
  }
  // No memory may go while the GPU still uses it.
  ~GpuSystem() override { (void)cudaStreamSynchronize(lane_.stream()); }
  GpuSystem(const GpuSystem&) = delete;
  GpuSystem& operator=(const GpuSystem&) = delete;

  bool factor(double width, double ridge) override {
    require();
    const double one = 1, zero = 0;
    check(cublasDsyrk_64(lane_.blas(), CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_T, dim_, cols_, &one, rows_.data(), cols_,
                         &zero, matrix_.data(), dim_),
          "to multiply rows");
    kernel_of_cosines(lane_.stream(), matrix_.data(), size_, width, ridge);
    const std::vector<double> before = diagonal();
    check(cusolverDnXpotrf(solver_.handle.get(), solver_.params.get(), CUBLAS_FILL_MODE_LOWER, dim_, CUDA_R_64F,
                           matrix_.data(), dim_, CUDA_R_64F, device_work_.data(), device_work_.size(),
                           host_work_.data(), host_work_.size(), info_.data()),
          kFactoring);
    int status = 0;
    check(cudaMemcpyAsync(&status, info_.data(), sizeof status, cudaMemcpyDeviceToHost, lane_.stream()), kFactoring);
    const std::vector<double> after = diagonal();  // which waits for the status as well
    return status == 0 && pivots_exist(before, after);
  }

  void solve(MatrixView<double> x) const override {
    require();
    const DeviceArray<double> columns(checked_mul(size_, std::min(kTogether, x.cols)));
    for (std::size_t first = 0; first < x.cols; first += kTogether) {
      solve_some(x.middle_cols(first, std::min(kTogether, x.cols - first)), columns.data());
    }
  }

  std::vector<double> inverse_diagonal(std::span<const std::size_t> positions) const override {
    require();
    if (positions.empty()) return {};
    const std::size_t most = std::min(kTogether, positions.size());
    const DeviceArray<double> columns(checked_mul(size_ - positions.front(), most)), squares(most);
    const DeviceArray<std::size_t> wanted(most);
    std::vector<double> result(positions.size());
    for (std::size_t done = 0; done < positions.size(); done += most) {
      const auto some = positions.subspan(done, std::min(most, positions.size() - done));
      const std::size_t first = some.front(), below = size_ - first;
      copy(wanted.data(), some.data(), some.size_bytes(), cudaMemcpyHostToDevice);
      check(cudaMemsetAsync(columns.data(), 0, below * some.size() * sizeof(double), lane_.stream()), kSolving);
      put_ones(lane_.stream(), columns.data(), below, wanted.data(), some.size(), first);
      const double one = 1;
      check(
          cublasDtrsm_64(lane_.blas(), CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT,
                         static_cast<std::int64_t>(below), static_cast<std::int64_t>(some.size()), &one,
                         matrix_.data() + first * (size_ + 1), dim_, columns.data(), static_cast<std::int64_t>(below)),
          kSolving);
      squared_columns(lane_.stream(), columns.data(), below, some.size(), squares.data());
      copy(&result[done], squares.data(), some.size() * sizeof(double), cudaMemcpyDeviceToHost);
      lane_.wait();  // before the positions are copied over
    }
    return result;
  }

 private:
  /// On the lane's stream, as that does not wait for copies on another.
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) const {
    check(cudaMemcpyAsync(to, from, bytes, kind, lane_.stream()), kCopying);
  }

  [[nodiscard]] std::vector<double> diagonal() const {
    std::vector<double> values(size_);
    check(cublasDcopy_64(lane_.blas(), dim_, matrix_.data(), dim_ + 1, diagonal_.data(), 1), kCopying);
    copy(values.data(), diagonal_.data(), size_ * sizeof(double), cudaMemcpyDeviceToHost);
    lane_.wait();
    return values;
  }

  /// As on the processor: a pivot that rounding may have made is none.
  [[nodiscard]] bool pivots_exist(const std::vector<double>& before, const std::vector<double>& after) const {
    const double least =
        *std::ranges::max_element(before) * static_cast<double>(size_) * std::numeric_limits<double>::epsilon();
    return std::ranges::all_of(after, [least](double root) { return root * root > least; });
  }

  /// Rows are columns to cuBLAS: it sees x^T, and x^T L^-T L^-1.
  void solve_some(MatrixView<double> x, double* columns) const {
    const std::size_t row = x.cols * sizeof(double);
    check(cudaMemcpy2DAsync(columns, row, x.data, x.stride * sizeof(double), row, x.rows, cudaMemcpyHostToDevice,
                            lane_.stream()),
          kCopying);
    const auto count = static_cast<std::int64_t>(x.cols);
    const double one = 1;
    for (const cublasOperation_t turn : {CUBLAS_OP_T, CUBLAS_OP_N}) {
      check(cublasDtrsm_64(lane_.blas(), CUBLAS_SIDE_RIGHT, CUBLAS_FILL_MODE_LOWER, turn, CUBLAS_DIAG_NON_UNIT, count,
                           dim_, &one, matrix_.data(), dim_, columns, count),
            kSolving);
    }
    check(cudaMemcpy2DAsync(x.data, x.stride * sizeof(double), columns, row, row, x.rows, cudaMemcpyDeviceToHost,
                            lane_.stream()),
          kCopying);
    lane_.wait();
  }

  std::size_t size_;
  std::int64_t dim_, cols_;
  Lane lane_;
  Solver solver_;
  DeviceArray<double> rows_, matrix_, diagonal_;
  DeviceArray<int> info_;
  DeviceArray<std::byte> device_work_;
  std::vector<std::byte> host_work_;
};

}  // namespace

std::unique_ptr<KernelSystem> make_kernel_system(MatrixView<const float> rows) {
  require();
  // The matrix, the rows in both widths, and what is solved for together.
  const std::size_t values = checked_mul(rows.rows, rows.rows + 2 * rows.cols + 2 * kTogether);
  require_free(checked_mul(values, sizeof(double)), "a kernel", "take fewer rows");
  return std::make_unique<GpuSystem>(rows);
}

}  // namespace kedge::cuda
