// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/dense.h"

#include "base/checked.h"
#include "base/wording.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>

namespace kedge::cuda {
namespace {

constexpr const char* kDecomposing = "to find eigenvectors";

int size_of(std::size_t value) {
  return checked_int(value, "a matrix's dimension");
}

}  // namespace

void Dense::multiply(double scale, Rows64 a, cublasOperation_t turn_a, Rows64 b, cublasOperation_t turn_b,
                     Rows64 c) const {
  const double keep = 0;
  const std::size_t shared = turn_a == CUBLAS_OP_T ? a.rows : a.cols;
  check(cublasDgemm(blas(), turn_b, turn_a, size_of(c.cols), size_of(c.rows), size_of(shared), &scale, b.data,
                    size_of(b.stride), a.data, size_of(a.stride), &keep, c.data, size_of(c.stride)),
        "to multiply matrices");
}

/// By the factor whose inverse B is.
void Dense::divide(const ChangeOfBasis& basis, cublasSideMode_t side, cublasOperation_t turn, Rows64 x) const {
  const Matrix64& factor = basis.factor().value().factor();
  const DeviceArray<double> own = copy_of(factor.view());
  const double one = 1;
  check(cublasDtrsm(blas(), side, CUBLAS_FILL_MODE_LOWER, turn, CUBLAS_DIAG_NON_UNIT, size_of(x.cols), size_of(x.rows),
                    &one, own.data(), size_of(factor.rows()), x.data, size_of(x.stride)),
        "to divide by a triangular matrix");
  wait();  // before the factor goes
}

void Dense::apply_to_rows(const ChangeOfBasis& basis, Rows64 x) const {
  if (basis.factor()) return divide(basis, CUBLAS_SIDE_LEFT, CUBLAS_OP_N, x);
  const DeviceArray<double> own = copy_of(basis.matrix().view()), before = copy_of(x);
  multiply(1, packed(before, x.rows, x.cols), CUBLAS_OP_N, packed(own, x.cols, x.cols), CUBLAS_OP_T, x);
  wait();
}

void Dense::apply_to_columns(const ChangeOfBasis& basis, Rows64 x) const {
  if (basis.factor()) return divide(basis, CUBLAS_SIDE_RIGHT, CUBLAS_OP_T, x);
  const DeviceArray<double> own = copy_of(basis.matrix().view()), before = copy_of(x);
  multiply(1, packed(own, x.rows, x.rows), CUBLAS_OP_N, packed(before, x.rows, x.cols), CUBLAS_OP_N, x);
  wait();
}

void Dense::adjoint_to_rows(const ChangeOfBasis& basis, Rows64 x) const {
  if (basis.factor()) return divide(basis, CUBLAS_SIDE_LEFT, CUBLAS_OP_T, x);
  const DeviceArray<double> own = copy_of(basis.matrix().view()), before = copy_of(x);
  multiply(1, packed(before, x.rows, x.cols), CUBLAS_OP_N, packed(own, x.cols, x.cols), CUBLAS_OP_N, x);
  wait();
}

std::vector<double> Dense::decompose(Rows64 symmetric, std::size_t count) const {
  const auto dim = static_cast<std::int64_t>(symmetric.rows);
  count = std::min(count, symmetric.rows);
  const bool all = count == symmetric.rows;
  const cusolverEigRange_t range = all ? CUSOLVER_EIG_RANGE_ALL : CUSOLVER_EIG_RANGE_I;
  const std::int64_t first = all ? 1 : dim - static_cast<std::int64_t>(count) + 1;  // cuSOLVER counts from 1
  double no_lowest = 0, no_highest = 0;
  std::int64_t found = 0;
  const DeviceArray<double> values(symmetric.rows);
  const DeviceArray<int> info(1);
  std::size_t device_bytes = 0, host_bytes = 0;
  check(cusolverDnXsyevdx_bufferSize(solver_.handle.get(), solver_.params.get(), CUSOLVER_EIG_MODE_VECTOR, range,
                                     CUBLAS_FILL_MODE_LOWER, dim, CUDA_R_64F, symmetric.data, dim, &no_lowest,
                                     &no_highest, first, dim, &found, CUDA_R_64F, values.data(), CUDA_R_64F,
                                     &device_bytes, &host_bytes),
        kDecomposing);
  const DeviceArray<std::byte> device_work(device_bytes);
  std::vector<std::byte> host_work(host_bytes);
  check(cusolverDnXsyevdx(solver_.handle.get(), solver_.params.get(), CUSOLVER_EIG_MODE_VECTOR, range,
                          CUBLAS_FILL_MODE_LOWER, dim, CUDA_R_64F, symmetric.data, dim, &no_lowest, &no_highest, first,
                          dim, &found, CUDA_R_64F, values.data(), CUDA_R_64F, device_work.data(), device_bytes,
                          host_work.data(), host_bytes, info.data()),
        kDecomposing);
  int status = 0;
  std::vector<double> result(count);
  copy(info.data(), &status, 1);
  copy(values.data(), result.data(), count);
  wait();
  if (status != 0) {
    throw Error(Code::failed, fmt::format("the eigendecomposition of a {0} x {0} matrix did not converge", dim));
  }
  if (found != static_cast<std::int64_t>(count)) {
    throw Error(Code::failed, fmt::format("the GPU found {} of the {} largest eigenvectors of a {} x {} matrix; use {}",
                                          found, count, dim, dim, option_words("device", "cpu")));
  }
  return result;
}

}  // namespace kedge::cuda
