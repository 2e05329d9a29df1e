// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"
#include "compute/cuda/cuda.h"

namespace kedge::cuda {
namespace {

[[noreturn]] void fail_without_cuda() {
  fail("this build of kedge has no CUDA; install the CUDA toolkit and configure with -DKEDGE_CUDA=ON, or use {}",
       option_words("device", "cpu"));
}

}  // namespace

std::vector<DeviceInfo> devices() {
  return {};
}
void require() {
  fail_without_cuda();
}
void put_back() noexcept {}
void warm_up() noexcept {}
std::unique_ptr<Backend> make_backend(Precision) {
  fail_without_cuda();
}
Eigenpairs eigh(const Matrix64&) {
  fail_without_cuda();
}
Eigenpairs eigh_with_root(const Matrix64&, Matrix64&) {
  fail_without_cuda();
}
std::unique_ptr<const CentredRows> centre_rows(MatrixView<const double>, std::span<const double>) {
  fail_without_cuda();
}
std::unique_ptr<const BlockCovariance> make_block_covariance(MatrixView<const double>, double,
                                                             std::span<const std::shared_ptr<const ChangeOfBasis>>,
                                                             std::span<const std::size_t>) {
  fail_without_cuda();
}
MakeRowWorker affine_workers(MatrixView<const float>, std::span<const float>, Precision) {
  fail_without_cuda();
}
MakeRowWorker kernel_workers(const KernelFunction&, Precision) {
  fail_without_cuda();
}
std::unique_ptr<KernelSystem> make_kernel_system(MatrixView<const float>) {
  fail_without_cuda();
}
void count_larger(MatrixView<const float>, MatrixView<const float>, float, std::span<std::size_t>,
                  const std::function<void(std::size_t)>&) {
  fail_without_cuda();
}

}  // namespace kedge::cuda

namespace kedge {

template <class T>
std::unique_ptr<RowSums<T>> make_row_sums(std::span<const std::size_t>, std::size_t, std::size_t, Device) {
  cuda::fail_without_cuda();
}
template std::unique_ptr<RowSums<float>> make_row_sums(std::span<const std::size_t>, std::size_t, std::size_t, Device);
template std::unique_ptr<RowSums<double>> make_row_sums(std::span<const std::size_t>, std::size_t, std::size_t, Device);

}  // namespace kedge
