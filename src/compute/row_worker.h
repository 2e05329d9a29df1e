// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/kernel_function.h"

#include <kedge/device.h>
#include <kedge/matrix.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

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

}  // namespace kedge
