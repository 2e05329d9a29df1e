// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/wording.h>

namespace kedge::cuda {
namespace {

[[noreturn]] void refuse() {
  throw Error(Code::failed, fmt::format("this build of kedge has no CUDA; install the CUDA toolkit and configure with "
                                        "-DKEDGE_CUDA=ON, or use {}",
                                        option_words("device", "cpu")));
}

}  // namespace

std::vector<DeviceInfo> devices() {
  return {};
}

void require() {
  refuse();
}

void put_back() noexcept {}

std::unique_ptr<Backend> make_backend(Precision) {
  refuse();
}

std::unique_ptr<RowSums> make_row_sums(std::size_t, std::size_t) {
  refuse();
}

Eigenpairs eigh_largest(const Matrix64&, std::size_t) {
  refuse();
}

void tridiagonalise(Matrix64&, std::span<double>, std::span<double>, std::span<double>) {
  refuse();
}

MakeRowWorker affine_rows(MatrixView<const float>, std::span<const float>, Precision) {
  refuse();
}

MakeRowWorker kernel_rows(const KernelFunction&, Precision) {
  refuse();
}

std::unique_ptr<KernelSystem> make_kernel_system(MatrixView<const float>) {
  refuse();
}

void count_larger(MatrixView<const float>, MatrixView<const float>, float, std::span<std::size_t>,
                  const std::function<void(std::size_t)>&) {
  refuse();
}

}  // namespace kedge::cuda
