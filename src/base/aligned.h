// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace kedge {

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
