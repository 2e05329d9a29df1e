// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/backend.h"
#include "backend/eigh.h"
#include "backend/kernel_function.h"
#include "backend/kernel_system.h"
#include "backend/row_worker.h"

#include <kedge/device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

// All that is known of CUDA outside its folder. Implemented there, or in cuda_absent.cpp for a build without CUDA,
// where everything but devices() and put_back() throws what require() throws.
namespace kedge::cuda {

/// Every GPU that can be used now; none where there is no CUDA, no driver or no GPU.
[[nodiscard]] std::vector<DeviceInfo> devices();
/// Makes the first GPU that can be used the calling thread's, until put_back(). Throws Error(Code::failed) that says
/// what is missing and how to get it.
void require();
/// Gives the calling thread back the GPU that it had before require().
void put_back() noexcept;
/// On the first GPU. Throws what require() throws.
[[nodiscard]] std::unique_ptr<Backend> make_backend(Precision precision);

/// Adds up rows and their products, about a pilot that is taken off them first. A block is summed up while the caller
/// fills the next.
class RowSums {
 public:
  virtual ~RowSums() = default;
  /// Where the next rows are to be put, packed. May wait for the GPU to be done with what was there.
  [[nodiscard]] virtual MatrixView<double> buffer(std::size_t rows) = 0;
  /// Once, before the first rows are added.
  virtual void set_pilot(std::span<const double> pilot) = 0;
  /// The first `rows` of the last buffer.
  virtual void add(std::size_t rows) = 0;
  /// `sums`: of the columns; `products`: the upper triangle of the sum of x^T x.
  virtual void finish(std::span<double> sums, MatrixView<double> products) = 0;
};
[[nodiscard]] std::unique_ptr<RowSums> make_row_sums(std::size_t dim, std::size_t most_rows);

/// The `count` largest eigenpairs of a symmetric matrix, ascending, by cuSOLVER. Only its upper triangle is read.
[[nodiscard]] Eigenpairs eigh_largest(const Matrix64& symmetric, std::size_t count);

/// Half of an eigendecomposition, by cuSOLVER: in place of the matrix, whose upper triangle is read, and in what is
/// given of its size, just as LAPACK's dsytrd leaves it.
void tridiagonalise(Matrix64& symmetric, std::span<double> diagonal, std::span<double> off_diagonal,
                    std::span<double> scales);

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
