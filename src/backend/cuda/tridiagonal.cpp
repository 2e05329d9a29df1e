// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/check.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/lane.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/solver.h"
#include "base/checked.h"

#include <fmt/format.h>
#include <kedge/error.h>

namespace kedge::cuda {
namespace {

constexpr const char* kReducing = "to make a matrix tridiagonal";
constexpr const char* kCopying = "to copy a matrix";

}  // namespace

void tridiagonalise(Matrix64& symmetric, std::span<double> diagonal, std::span<double> off_diagonal,
                    std::span<double> scales) {
  require();
  const std::size_t dim = symmetric.rows();
  const int size = checked_int(dim, "a matrix's dimension");
  const Stream stream = make_stream();
  const Solver solver(stream.get());
  const DeviceArray<double> matrix(symmetric.cells().size()), found(3 * dim);
  double* const on_diagonal = found.data();
  double* const beside = on_diagonal + dim;
  double* const tau = beside + dim;
  const DeviceArray<int> info(1);
  const auto copy = [&](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    check(cudaMemcpyAsync(to, from, bytes, kind, stream.get()), kCopying);
  };
  copy(matrix.data(), symmetric.cells().data(), symmetric.cells().size_bytes(), cudaMemcpyHostToDevice);
  int length = 0;
  // The upper triangle by rows is the lower one by columns.
  check(cusolverDnDsytrd_bufferSize(solver.handle.get(), CUBLAS_FILL_MODE_LOWER, size, matrix.data(), size, on_diagonal,
                                    beside, tau, &length),
        kReducing);
  const DeviceArray<double> work(static_cast<std::size_t>(length));
  check(cusolverDnDsytrd(solver.handle.get(), CUBLAS_FILL_MODE_LOWER, size, matrix.data(), size, on_diagonal, beside,
                         tau, work.data(), length, info.data()),
        kReducing);
  int status = 0;
  copy(&status, info.data(), sizeof status, cudaMemcpyDeviceToHost);
  copy(symmetric.cells().data(), matrix.data(), symmetric.cells().size_bytes(), cudaMemcpyDeviceToHost);
  copy(diagonal.data(), on_diagonal, diagonal.size_bytes(), cudaMemcpyDeviceToHost);
  const std::size_t beside_bytes = (dim - 1) * sizeof(double);
  copy(off_diagonal.data(), beside, beside_bytes, cudaMemcpyDeviceToHost);
  copy(scales.data(), tau, beside_bytes, cudaMemcpyDeviceToHost);
  check(cudaStreamSynchronize(stream.get()), kReducing);
  if (status != 0) throw Error(Code::failed, fmt::format("the GPU could not make a {0} x {0} matrix tridiagonal", dim));
}

}  // namespace kedge::cuda
