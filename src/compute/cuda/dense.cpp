// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/dense.h"

#include "base/arithmetic.h"
#include "base/wording.h"
#include "compute/cuda/cuda.h"

#include <algorithm>
#include <cmath>
#include <exception>

namespace kedge::cuda {
namespace {

constexpr const char* kDecomposing = "to find eigenvectors";

int size_of(std::size_t value) {
  return checked_int(value, "a matrix's dimension");
}

void require_matrices(std::size_t count, std::size_t dim) {
  require();
  require_free(checked_mul(checked_mul(dim, dim), count * sizeof(double)), "an eigendecomposition",
               "give fewer or narrower files at a time");
}

/// The matrix becomes its eigenvectors.
Eigenpairs decompose(const Dense& dense, Rows64 matrix) {
  Eigenpairs pairs{dense.decompose(matrix, matrix.rows), Matrix64(matrix.rows, matrix.rows)};
  dense.copy(matrix, pairs.vectors.view());
  dense.wait();
  return pairs;
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

Eigenpairs eigh(const Matrix64& symmetric) {
  const std::size_t dim = symmetric.rows();
  require_matrices(3, dim);  // the matrix, and about two of its size to work in
  const Dense dense;
  const DeviceArray<double> matrix = dense.copy_of(symmetric.view());
  return decompose(dense, packed(matrix, dim, dim));
}

/// The root is the product of the eigenvectors, each times its value^(-1/4), with themselves.
Eigenpairs eigh_with_root(const Matrix64& symmetric, Matrix64& inverse_root) {
  const std::size_t dim = symmetric.rows();
  require_matrices(5, dim);
  const Dense dense;
  const DeviceArray<double> matrix = dense.copy_of(symmetric.view()), scaled(matrix.size());
  const Rows64 vectors = packed(matrix, dim, dim), halves = packed(scaled, dim, dim);
  Eigenpairs pairs = decompose(dense, vectors);
  std::vector<double> scales;
  for (const double value : pairs.values) scales.push_back(std::pow(value, -0.25));
  const DeviceArray<double> of_rows = dense.copy_of(MatrixView<const double>{scales.data(), 1, dim, dim});
  const int size = checked_int(dim, "a matrix's dimension");
  check(cublasDdgmm(dense.blas(), CUBLAS_SIDE_RIGHT, size, size, vectors.data, size, of_rows.data(), 1, halves.data,
                    size),
        "to scale eigenvectors");
  dense.multiply(1, halves, CUBLAS_OP_T, halves, CUBLAS_OP_N, vectors);
  inverse_root = Matrix64(dim, dim);
  dense.copy(vectors, inverse_root.view());
  dense.wait();
  return pairs;
}

/// CUDA loads a kernel when it is first used, and other kernels serve matrices of other sizes: so these are large
/// enough to be like those to come, and small enough to take no time themselves. A consensus fit of three files of
/// 50,000 rows took 0.72 s with it and 0.92 s without on an H200.
void warm_up() noexcept {
  constexpr std::size_t kDim = 512, kLeading = 64;
  try {
    require();
    Matrix64 identity(kDim, kDim);
    for (std::size_t i = 0; i < kDim; ++i) identity.row(i)[i] = 1 + static_cast<double>(i) / kDim;
    const ChangeOfBasis basis{Cholesky(identity)};
    const Dense dense;
    const DeviceArray<double> first = dense.copy_of(identity.view()), second(first.size());
    const Rows64 a = packed(first, kDim, kDim), b = packed(second, kDim, kDim);
    for (const std::size_t count : {kLeading, kDim}) {
      dense.multiply(1, a, CUBLAS_OP_T, a, CUBLAS_OP_N, b);
      dense.multiply(1, a, CUBLAS_OP_N, a, CUBLAS_OP_T, b);
      dense.multiply(1, a, CUBLAS_OP_N, a, CUBLAS_OP_N, b);
      dense.apply_to_rows(basis, b);
      dense.apply_to_columns(basis, b);
      dense.adjoint_to_rows(basis, b);
      mirror(b, 1, dense.stream());
      (void)dense.decompose(b, count);
    }
    dense.wait();
  } catch (const std::exception&) {  // it fails again, and is reported, in the work itself
  }
  put_back();
}

}  // namespace kedge::cuda
