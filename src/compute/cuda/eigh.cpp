// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"
#include "base/wording.h"
#include "compute/cuda/check.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/dense.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <cmath>
#include <vector>

namespace kedge::cuda {
namespace {

constexpr const char* kDecomposing = "to find eigenvectors";

void require_converged(const int* info, std::int64_t dim) {
  int status = 0;
  check(cudaMemcpy(&status, info, sizeof status, cudaMemcpyDeviceToHost), "to copy a result");
  if (status == 0) return;
  throw Error(Code::failed, fmt::format("the eigendecomposition of a {0} x {0} matrix did not converge", dim));
}

/// In place: the eigenvectors are columns to cuSOLVER, and so rows to us. All of them, by divide and conquer.
void decompose_all(const Solver& solver, std::int64_t dim, double* matrix, double* values, int* info) {
  std::size_t device_bytes = 0, host_bytes = 0;
  check(cusolverDnXsyevd_bufferSize(solver.handle.get(), solver.params.get(), CUSOLVER_EIG_MODE_VECTOR,
                                    CUBLAS_FILL_MODE_LOWER, dim, CUDA_R_64F, matrix, dim, CUDA_R_64F, values,
                                    CUDA_R_64F, &device_bytes, &host_bytes),
        kDecomposing);
  const DeviceArray<std::byte> device_work(device_bytes);
  std::vector<std::byte> host_work(host_bytes);
  check(cusolverDnXsyevd(solver.handle.get(), solver.params.get(), CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER,
                         dim, CUDA_R_64F, matrix, dim, CUDA_R_64F, values, CUDA_R_64F, device_work.data(), device_bytes,
                         host_work.data(), host_bytes, info),
        kDecomposing);
  check(cudaStreamSynchronize(solver.stream), kDecomposing);
  require_converged(info, dim);
}

/// The same for the largest, which stand first then.
void decompose_some(const Solver& solver, std::int64_t dim, std::int64_t count, double* matrix, double* values,
                    int* info) {
  double no_lowest = 0, no_highest = 0;  // the range is one of numbers, counted from 1
  const std::int64_t first = dim - count + 1;
  std::int64_t found = 0;
  std::size_t device_bytes = 0, host_bytes = 0;
  check(cusolverDnXsyevdx_bufferSize(solver.handle.get(), solver.params.get(), CUSOLVER_EIG_MODE_VECTOR,
                                     CUSOLVER_EIG_RANGE_I, CUBLAS_FILL_MODE_LOWER, dim, CUDA_R_64F, matrix, dim,
                                     &no_lowest, &no_highest, first, dim, &found, CUDA_R_64F, values, CUDA_R_64F,
                                     &device_bytes, &host_bytes),
        kDecomposing);
  const DeviceArray<std::byte> device_work(device_bytes);
  std::vector<std::byte> host_work(host_bytes);
  check(cusolverDnXsyevdx(solver.handle.get(), solver.params.get(), CUSOLVER_EIG_MODE_VECTOR, CUSOLVER_EIG_RANGE_I,
                          CUBLAS_FILL_MODE_LOWER, dim, CUDA_R_64F, matrix, dim, &no_lowest, &no_highest, first, dim,
                          &found, CUDA_R_64F, values, CUDA_R_64F, device_work.data(), device_bytes, host_work.data(),
                          host_bytes, info),
        kDecomposing);
  check(cudaStreamSynchronize(solver.stream), kDecomposing);
  require_converged(info, dim);
  if (found == count) return;
  throw Error(Code::failed, fmt::format("the GPU found {} of the {} largest eigenvectors of a {} x {} matrix; use {}",
                                        found, count, dim, dim, option_words("device", "cpu")));
}

}  // namespace

std::vector<double> Dense::decompose(const Block& symmetric, std::size_t count) const {
  const auto dim = static_cast<std::int64_t>(symmetric.rows);
  const DeviceArray<double> values(symmetric.rows);
  const DeviceArray<int> info(1);
  if (count >= symmetric.rows) {
    count = symmetric.rows;
    decompose_all(solver_, dim, symmetric.data, values.data(), info.data());
  } else {
    decompose_some(solver_, dim, static_cast<std::int64_t>(count), symmetric.data, values.data(), info.data());
  }
  std::vector<double> found(count);
  check(cudaMemcpy(found.data(), values.data(), count * sizeof(double), cudaMemcpyDeviceToHost), "to copy eigenvalues");
  return found;
}

Eigenpairs eigh(const Matrix64& symmetric) {
  require();
  const std::size_t dim = symmetric.rows();
  constexpr std::size_t kMatrices = 3;  // the matrix, and about two of its size to work in
  require_free(checked_mul(checked_mul(dim, dim), kMatrices * sizeof(double)), "an eigendecomposition",
               "give fewer or narrower files at a time");
  const Dense dense;
  // Our upper triangle is the lower one to cuSOLVER, and its columns are our rows.
  const DeviceArray<double> matrix = dense.upload(symmetric.view());
  Eigenpairs pairs{dense.decompose({matrix.data(), dim, dim, dim}, dim), Matrix64(dim, dim)};
  dense.download({matrix.data(), dim, dim, dim}, pairs.vectors.view());
  return pairs;
}

/// Eigenvectors scaled by values^(-1/4) on both sides of the product.
Eigenpairs eigh_with_root(const Matrix64& symmetric, Matrix64& inverse_root) {
  require();
  const std::size_t dim = symmetric.rows();
  constexpr std::size_t kMatrices = 5;
  require_free(checked_mul(checked_mul(dim, dim), kMatrices * sizeof(double)), "an eigendecomposition",
               "give fewer or narrower files at a time");
  const Dense dense;
  const DeviceArray<double> matrix = dense.upload(symmetric.view()), scaled(matrix.size());
  const Block vectors{matrix.data(), dim, dim, dim}, halves{scaled.data(), dim, dim, dim};
  Eigenpairs pairs{dense.decompose(vectors, dim), Matrix64(dim, dim)};
  dense.download(vectors, pairs.vectors.view());
  std::vector<double> scales;
  for (const double value : pairs.values) scales.push_back(std::pow(value, -0.25));
  const DeviceArray<double> of_columns = dense.upload({scales.data(), 1, dim, dim});
  const int size = checked_int(dim, "a matrix's dimension");
  check(cublasDdgmm(dense.blas(), CUBLAS_SIDE_RIGHT, size, size, vectors.data, size, of_columns.data(), 1, halves.data,
                    size),
        "to scale eigenvectors");
  dense.multiply(1, halves, Dense::Side::plain, halves, Dense::Side::turned, vectors);
  inverse_root = Matrix64(dim, dim);
  dense.download(vectors, inverse_root.view());
  return pairs;
}

}  // namespace kedge::cuda
