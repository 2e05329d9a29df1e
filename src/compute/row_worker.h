// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/kernel.h"

#include <cstdlib>
#include <functional>
#include <new>

namespace kedge {

/// Takes blocks of rows through a function, in buffers of its own: one for each thread.
class RowWorker {
 public:
  virtual ~RowWorker() = default;
  /// Memory to put the next rows into, packed.
  [[nodiscard]] virtual MatrixView<float> input(std::size_t rows) = 0;
  /// The results of the first `rows` that were put there, packed. The caller may change them until the next call.
  [[nodiscard]] virtual MatrixView<float> apply(std::size_t rows) = 0;
};

/// Makes a worker for blocks of up to so many rows; may be called from several threads.
using MakeRowWorker = std::function<std::unique_ptr<RowWorker>(std::size_t most_rows)>;

// The arguments must outlive the workers.

/// y = weight x + bias, row by row.
[[nodiscard]] MakeRowWorker affine_workers(MatrixView<const float> weight, std::span<const float> bias, Device device,
                                           Precision precision);
[[nodiscard]] MakeRowWorker kernel_workers(const KernelFunction& function, Device device, Precision precision);
/// Any function of a block of rows, on the processor; it is called from several threads.
[[nodiscard]] MakeRowWorker function_workers(std::size_t input_dim, std::size_t output_dim,
                                             std::function<void(MatrixView<const float>, MatrixView<float>)> apply);

/// How rows are best given to the workers of a device.
struct RowFlow {
  std::size_t block_values;  ///< of the input and the output of a block together
  unsigned workers;
};
[[nodiscard]] RowFlow row_flow(Device device);

/// A matrix whose first value lies on a page boundary, as unbuffered file writes want it. Not initialised.
class PageAlignedMatrix {
 public:
  PageAlignedMatrix(std::size_t rows, std::size_t cols) : rows_(rows), cols_(cols) {
    constexpr std::size_t kPage = 4096;
    const std::size_t bytes = checked_mul(checked_mul(rows, cols), sizeof(float));
    cells_.reset(static_cast<float*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage)));
    if (!cells_) throw std::bad_alloc();
  }
  [[nodiscard]] MatrixView<float> view() { return {cells_.get(), rows_, cols_, cols_}; }

 private:
  struct Free {
    void operator()(float* cells) const { std::free(cells); }
  };
  std::unique_ptr<float, Free> cells_;
  std::size_t rows_, cols_;
};

}  // namespace kedge
