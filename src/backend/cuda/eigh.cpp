// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/check.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/lane.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/solver.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/wording.h>

#include <algorithm>
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
void decompose_largest(const Solver& solver, std::int64_t dim, std::int64_t count, double* matrix, double* values,
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

Eigenpairs eigh_largest(const Matrix64& symmetric, std::size_t count) {
  require();
  const std::size_t dim = symmetric.rows();
  count = std::min(count, dim);
  constexpr std::size_t kMatrices = 3;  // the matrix, and about two of its size to work in
  require_free(checked_mul(checked_mul(dim, dim), kMatrices * sizeof(double)), "an eigendecomposition",
               "take fewer spaces at a time");
  const Stream stream = make_stream();
  const Solver solver(stream.get());
  const DeviceArray<double> matrix(symmetric.cells().size()), values(dim);
  const DeviceArray<int> info(1);
  // On the solver's stream, as that does not wait for copies on another.
  check(cudaMemcpyAsync(matrix.data(), symmetric.cells().data(), symmetric.cells().size_bytes(), cudaMemcpyHostToDevice,
                        solver.stream),
        "to copy a matrix");
  // The upper triangle by rows is the lower one by columns.
  const auto size = static_cast<std::int64_t>(dim);
  if (count == dim) {
    decompose_all(solver, size, matrix.data(), values.data(), info.data());
  } else {
    decompose_largest(solver, size, static_cast<std::int64_t>(count), matrix.data(), values.data(), info.data());
  }
  Eigenpairs pairs{std::vector<double>(count), Matrix64(count, dim)};
  check(cudaMemcpy(pairs.values.data(), values.data(), count * sizeof(double), cudaMemcpyDeviceToHost),
        "to copy eigenvalues");
  check(cudaMemcpy(pairs.vectors.cells().data(), matrix.data(), pairs.vectors.cells().size_bytes(),
                   cudaMemcpyDeviceToHost),
        "to copy eigenvectors");
  return pairs;
}

}  // namespace kedge::cuda
