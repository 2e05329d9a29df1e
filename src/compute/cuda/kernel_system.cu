// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cuda.h"
#include "compute/cuda/dense.h"
#include "compute/cuda/device.cuh"

#include <algorithm>
#include <limits>

namespace kedge::cuda {
namespace {

constexpr const char* kFactoring = "to factor a kernel";
constexpr const char* kSolving = "to solve for a kernel's coefficients";

constexpr std::size_t kTogether = 1024;  // columns that are solved for at once
constexpr unsigned kThreads = 256;

__global__ void widen_kernel(ConstPanel from, double* to) {
  double* row = to + blockIdx.x * from.cols;
  for (std::size_t c = threadIdx.x; c < from.cols; c += kThreads) row[c] = row_of(from, blockIdx.x)[c];
}

/// exp(width (cosine - 1)) in the lower triangle of a matrix by columns, with the ridge on its diagonal.
__global__ void exponential_kernel(double* matrix, std::size_t dim, double width, double ridge) {
  const std::size_t c = blockIdx.x;
  double* column = matrix + c * dim;
  for (std::size_t r = c + threadIdx.x; r < dim; r += kThreads) {
    column[r] = exp(width * (column[r] - 1)) + (r == c ? ridge : 0);
  }
}

/// Column c, of `rows` zeros, gets a 1 at row positions[c] - first.
__global__ void ones_kernel(double* columns, std::size_t rows, const std::size_t* positions, std::size_t count,
                            std::size_t first) {
  const std::size_t c = blockIdx.x * std::size_t{kThreads} + threadIdx.x;
  if (c < count) columns[c * rows + (positions[c] - first)] = 1;
}

/// The sum of squares of each column.
__global__ void squares_kernel(const double* columns, std::size_t rows, double* squares) {
  const double* column = columns + blockIdx.x * rows;
  double sum = 0;
  for (std::size_t r = threadIdx.x; r < rows; r += kThreads) sum += column[r] * column[r];
  sum = block_sum(sum);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

/// The factor is the lower triangle by columns, in place of the kernel. Cosines are made anew for each factor: cuSOLVER
/// may use the other triangle, and they take next to no time here.
class GpuSystem final : public KernelSystem {
 public:
  explicit GpuSystem(MatrixView<const float> rows)
      : size_(rows.rows),
        dim_(static_cast<std::int64_t>(rows.rows)),
        cols_(static_cast<std::int64_t>(rows.cols)),
        rows_(checked_mul(rows.rows, rows.cols)),
        matrix_(checked_mul(size_, size_)),
        diagonal_(size_),
        info_(1) {
    const DeviceArray<float> narrow = dense_.copy_of(rows);
    launch(widen_kernel, blocks(rows.rows), kThreads, dense_.stream(), "to widen rows",
           {narrow.data(), rows.rows, rows.cols, rows.cols}, rows_.data());
    dense_.wait();
    std::size_t device_bytes = 0, host_bytes = 0;
    const Solver& solver = dense_.solver();
    check(cusolverDnXpotrf_bufferSize(solver.handle.get(), solver.params.get(), CUBLAS_FILL_MODE_LOWER, dim_,
                                      CUDA_R_64F, matrix_.data(), dim_, CUDA_R_64F, &device_bytes, &host_bytes),
          kFactoring);
    device_work_ = DeviceArray<std::byte>(device_bytes);
    host_work_.resize(host_bytes);
  }

  bool factor(double width, double ridge) override {
    require();
    const double one = 1, zero = 0;
    check(cublasDsyrk_64(dense_.blas(), CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_T, dim_, cols_, &one, rows_.data(), cols_,
                         &zero, matrix_.data(), dim_),
          "to multiply rows");
    launch(exponential_kernel, blocks(size_), kThreads, dense_.stream(), "to make a kernel", matrix_.data(), size_,
           width, ridge);
    const std::vector<double> before = diagonal();
    const Solver& solver = dense_.solver();
    check(cusolverDnXpotrf(solver.handle.get(), solver.params.get(), CUBLAS_FILL_MODE_LOWER, dim_, CUDA_R_64F,
                           matrix_.data(), dim_, CUDA_R_64F, device_work_.data(), device_work_.size(),
                           host_work_.data(), host_work_.size(), info_.data()),
          kFactoring);
    int status = 0;
    dense_.copy(info_.data(), &status, 1);
    const std::vector<double> after = diagonal();  // waits for the status as well
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
      dense_.copy(some.data(), wanted.data(), some.size());
      dense_.clear(columns.data(), below * some.size());
      launch(ones_kernel, blocks(some.size(), kThreads), kThreads, dense_.stream(), kSolving, columns.data(), below,
             wanted.data(), some.size(), first);
      const double one = 1;
      check(
          cublasDtrsm_64(dense_.blas(), CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT,
                         static_cast<std::int64_t>(below), static_cast<std::int64_t>(some.size()), &one,
                         matrix_.data() + first * (size_ + 1), dim_, columns.data(), static_cast<std::int64_t>(below)),
          kSolving);
      launch(squares_kernel, blocks(some.size()), kThreads, dense_.stream(), kSolving, columns.data(), below,
             squares.data());
      dense_.copy(squares.data(), &result[done], some.size());
      dense_.wait();
    }
    return result;
  }

 private:
  [[nodiscard]] std::vector<double> diagonal() const {
    std::vector<double> values(size_);
    check(cublasDcopy_64(dense_.blas(), dim_, matrix_.data(), dim_ + 1, diagonal_.data(), 1), kFactoring);
    dense_.copy(diagonal_.data(), values.data(), size_);
    dense_.wait();
    return values;
  }

  /// As on the processor: a pivot that rounding may have made is none.
  [[nodiscard]] bool pivots_exist(const std::vector<double>& before, const std::vector<double>& after) const {
    const double least =
        *std::ranges::max_element(before) * static_cast<double>(size_) * std::numeric_limits<double>::epsilon();
    return std::ranges::all_of(after, [least](double root) { return root * root > least; });
  }

  /// Rows are columns to cuBLAS: it makes x^T L^-T L^-1 of x^T.
  void solve_some(MatrixView<double> x, double* columns) const {
    const Rows64 own{columns, x.rows, x.cols, x.cols};
    dense_.copy(x, own);
    const auto count = static_cast<std::int64_t>(x.cols);
    const double one = 1;
    for (const cublasOperation_t turn : {CUBLAS_OP_T, CUBLAS_OP_N}) {
      check(cublasDtrsm_64(dense_.blas(), CUBLAS_SIDE_RIGHT, CUBLAS_FILL_MODE_LOWER, turn, CUBLAS_DIAG_NON_UNIT, count,
                           dim_, &one, matrix_.data(), dim_, columns, count),
            kSolving);
    }
    dense_.copy(own, x);
    dense_.wait();
  }

  std::size_t size_;
  std::int64_t dim_, cols_;
  DeviceArray<double> rows_, matrix_, diagonal_;
  DeviceArray<int> info_;
  DeviceArray<std::byte> device_work_;
  std::vector<std::byte> host_work_;
  Dense dense_;
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
