// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"
#include "compute/centred_rows.h"
#include "compute/eigh.h"
#include "compute/kernel_function.h"
#include "compute/kernel_system.h"
#include "compute/row_worker.h"
#include "compute/whitened_covariance.h"

#include <kedge/device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

// All that is known of CUDA outside its folder. Implemented there, or in cuda_absent.cpp for a build without CUDA,
// where everything but devices(), put_back() and warm_up() throws what require() throws.
namespace kedge::cuda {

/// Every GPU that can be used now; none where there is no CUDA, no driver or no GPU.
[[nodiscard]] std::vector<DeviceInfo> devices();
/// Makes the first GPU that can be used the calling thread's, until put_back(). Throws Error(Code::failed) that says
/// what is missing and how to get it.
void require();
/// Gives the calling thread back the GPU that it had before require().
void put_back() noexcept;
/// Makes CUDA load what a fit in closed form will need, which takes it longer than the fit; to be called beside what
/// else there is to do. What goes wrong will go wrong again where it matters.
void warm_up() noexcept;
/// On the first GPU. Throws what require() throws.
[[nodiscard]] std::unique_ptr<Backend> make_backend(Precision precision);

/// Adds up rows of float or double, and their products, in float64. A block is summed up while the caller fills the
/// next.
template <class T>
class RowSums {
 public:
  virtual ~RowSums() = default;
  /// Where rows of each space are to be put, packed. May wait for the GPU to be done with what was there.
  [[nodiscard]] virtual std::vector<MatrixView<T>> buffer(std::size_t number, std::size_t rows) = 0;
  /// Once, before the first rows are added: about where they lie, so that their products keep their digits.
  virtual void set_pilot(std::span<const double> pilot) = 0;
  /// All rows of a buffer.
  virtual void add(std::size_t number, std::size_t rows) = 0;
  /// The mean of the rows, and the sum of x^T x of the rows less that mean.
  virtual void finish(std::span<double> mean, MatrixView<double> scatter) = 0;
};
template <class T>
[[nodiscard]] std::unique_ptr<RowSums<T>> make_row_sums(std::span<const std::size_t> dims, std::size_t most_rows,
                                                        std::size_t buffers);

/// All eigenpairs of a symmetric matrix, ascending, by cuSOLVER. Only its upper triangle is read.
[[nodiscard]] Eigenpairs eigh(const Matrix64& symmetric);

/// The same, and the inverse square root that they make.
[[nodiscard]] Eigenpairs eigh_with_root(const Matrix64& symmetric, Matrix64& inverse_root);

/// The same rows in the GPU's memory, where all that is made of them stays.
[[nodiscard]] std::unique_ptr<const CentredRows> centre_rows(MatrixView<const double> rows,
                                                             std::span<const double> mean);
/// In the GPU's memory; `share` times the lower triangle of `scatter` is the covariance.
[[nodiscard]] std::unique_ptr<const WhitenedCovariance> whiten_covariance(
    MatrixView<const double> scatter, double share, std::span<const std::shared_ptr<const Whitener>> whiteners,
    std::span<const std::size_t> dims);

/// Workers for y = weight x + bias, row by row; the weight is in the GPU's memory once for all of them.
[[nodiscard]] MakeRowWorker affine_rows(MatrixView<const float> weight, std::span<const float> bias,
                                        Precision precision);

/// Workers for a kernel function, row by row; it is in the GPU's memory once for all of them.
[[nodiscard]] MakeRowWorker kernel_rows(const KernelFunction& function, Precision precision);

/// In the GPU's memory. `rows` have length 1, or 0.
[[nodiscard]] std::unique_ptr<KernelSystem> make_kernel_system(MatrixView<const float> rows);

/// ranks[i] += the keys whose product with query i is larger than that of key i; queries and keys are unit rows.
/// Products in float32 decide all but those within `near` of each other, which float64 decides. `tell` hears how many
/// queries are done.
void count_larger(MatrixView<const float> queries, MatrixView<const float> keys, float near,
                  std::span<std::size_t> ranks, const std::function<void(std::size_t)>& tell);

}  // namespace kedge::cuda
