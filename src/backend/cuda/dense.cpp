// SPDX-License-Identifier: Apache-2.0
#include "backend/dense.h"

#include "backend/cuda/check.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/lane.h"
#include "backend/cuda/memory.h"
#include "base/checked.h"

namespace kedge::cuda {
namespace {

constexpr const char* kCopying = "to copy a matrix";
constexpr const char* kMultiplying = "to multiply matrices";

struct GpuCells final : Dense::Cells {
  GpuCells(std::size_t rows, std::size_t cols) : Cells(rows, cols), values(checked_mul(rows, cols)) {}
  DeviceArray<double> values;
};

double* data(const Dense::Cells& cells) {
  return static_cast<const GpuCells&>(cells).values.data();
}
std::int64_t rows(const Dense::Cells& cells) {
  return static_cast<std::int64_t>(cells.rows());
}
std::int64_t cols(const Dense::Cells& cells) {
  return static_cast<std::int64_t>(cells.cols());
}

/// Our rows are cuBLAS's columns, so that a product is that of the transposes in reverse.
class GpuDense final : public Dense {
 public:
  ~GpuDense() override { (void)cudaStreamSynchronize(lane_.stream()); }
  GpuDense() = default;
  GpuDense(const GpuDense&) = delete;
  GpuDense& operator=(const GpuDense&) = delete;

  Owned make(std::size_t rows, std::size_t cols) override { return std::make_unique<GpuCells>(rows, cols); }

  void upload(const Matrix64& from, Cells& to) override {
    check(cudaMemcpyAsync(data(to), from.cells().data(), from.cells().size_bytes(), cudaMemcpyHostToDevice,
                          lane_.stream()),
          kCopying);
    lane_.wait();  // the caller may change what was copied
  }
  void download(const Cells& from, Matrix64& to) override {
    check(
        cudaMemcpyAsync(to.cells().data(), data(from), to.cells().size_bytes(), cudaMemcpyDeviceToHost, lane_.stream()),
        kCopying);
    lane_.wait();
  }
  void multiply(double scale, const Cells& a, const Cells& b, double keep, Cells& to) override {
    check(cublasDgemm_64(lane_.blas(), CUBLAS_OP_N, CUBLAS_OP_N, cols(to), rows(to), cols(a), &scale, data(b), cols(b),
                         data(a), cols(a), &keep, data(to), cols(to)),
          kMultiplying);
  }
  void multiply_transposed(double scale, const Cells& a, const Cells& b, Cells& to) override {
    const double keep = 0;
    check(cublasDgemm_64(lane_.blas(), CUBLAS_OP_T, CUBLAS_OP_N, cols(to), rows(to), cols(a), &scale, data(b), cols(b),
                         data(a), cols(a), &keep, data(to), cols(to)),
          kMultiplying);
  }
  void add(double scale, const Cells& from, Cells& to) override {
    check(cublasDaxpy_64(lane_.blas(), rows(to) * cols(to), &scale, data(from), 1, data(to), 1), "to add matrices");
  }
  double norm(const Cells& cells) override {
    double result = 0;
    check(cublasDnrm2_64(lane_.blas(), rows(cells) * cols(cells), data(cells), 1, &result), "to measure a matrix");
    lane_.wait();
    return result;
  }

 private:
  Lane lane_;
};

}  // namespace

std::unique_ptr<Dense> make_dense() {
  require();
  return std::make_unique<GpuDense>();
}

}  // namespace kedge::cuda
