// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace kedge {

/// Takes blocks of rows through a function, in buffers of its own: one for each thread.
class RowWorker {
 public:
  virtual ~RowWorker() = default;
  /// Where the next rows are to be put, packed.
  [[nodiscard]] virtual MatrixView<float> input(std::size_t rows) = 0;
  /// What became of the first `rows` that were put there, packed; it is the caller's to change until the next
  /// call.
  [[nodiscard]] virtual MatrixView<float> apply(std::size_t rows) = 0;
};

/// Makes a worker for blocks of up to so many rows; may be called from several threads.
using MakeRowWorker = std::function<std::unique_ptr<RowWorker>(std::size_t most_rows)>;

}  // namespace kedge
