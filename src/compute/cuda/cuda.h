// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"
#include "compute/covariance.h"
#include "compute/row_worker.h"

// What the rest of compute knows of CUDA, but for make_row_sums (covariance.h). Without CUDA, cuda_absent.cpp is built,
// where everything but devices(), put_back() and warm_up() throws what require() throws.
namespace kedge::cuda {

/// Every GPU that can be used now; none if there is no CUDA, no driver or no GPU.
[[nodiscard]] std::vector<DeviceInfo> devices();
/// Makes the first GPU that can be used the calling thread's, until put_back(). Throws Error(Code::failed) that says
/// what is missing and how to get it.
void require();
/// Gives the calling thread back the GPU that it had before require().
void put_back() noexcept;
/// Makes CUDA load what decompositions need, which takes it longer than they do. Errors are swallowed: whatever fails
/// here fails again, and is reported, in the work itself.
void warm_up() noexcept;
/// On the first GPU. Throws what require() throws.
[[nodiscard]] std::unique_ptr<Backend> make_backend(Precision precision);

/// All eigenpairs of a symmetric matrix, ascending, by cuSOLVER. Only its upper triangle is read.
[[nodiscard]] Eigenpairs eigh(const Matrix64& symmetric);

/// The same, and the inverse square root of the matrix.
[[nodiscard]] Eigenpairs eigh_with_root(const Matrix64& symmetric, Matrix64& inverse_root);

/// Rows less their mean, in the GPU's memory; what is made of them stays there.
[[nodiscard]] std::unique_ptr<const CentredRows> centre_rows(MatrixView<const double> rows,
                                                             std::span<const double> mean);
/// In the GPU's memory; `share` times the lower triangle of `scatter` is the covariance.
[[nodiscard]] std::unique_ptr<const BlockCovariance> make_block_covariance(
    MatrixView<const double> scatter, double share, std::span<const std::shared_ptr<const ChangeOfBasis>> bases,
    std::span<const std::size_t> dims);

/// Workers for y = weight x + bias, row by row; the weight is in the GPU's memory once for all of them.
[[nodiscard]] MakeRowWorker affine_workers(MatrixView<const float> weight, std::span<const float> bias,
                                           Precision precision);

/// Workers for a kernel function, row by row; it is in the GPU's memory once for all of them.
[[nodiscard]] MakeRowWorker kernel_workers(const KernelFunction& function, Precision precision);

/// In the GPU's memory. `rows` have length 1, or 0.
[[nodiscard]] std::unique_ptr<KernelSystem> make_kernel_system(MatrixView<const float> rows);

/// As count_larger of neighbors.h; products within `near` of each other are compared in float64.
void count_larger(MatrixView<const float> queries, MatrixView<const float> keys, float near,
                  std::span<std::size_t> counts, const std::function<void(std::size_t)>& tell);

}  // namespace kedge::cuda
