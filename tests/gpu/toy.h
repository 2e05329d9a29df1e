// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"
#include "compute/operation_cases.h"

#include <kedge/space.h>

#include <vector>

namespace kedge::test {

/// Spaces that see the same hidden causes, each in its own way and with noise of its own.
class Toy {
 public:
  Toy(std::size_t rows, const std::vector<std::size_t>& dims) {
    constexpr std::size_t kCauses = 12;
    const Matrix hidden = quick_random(rows, kCauses, 1);
    for (const std::size_t dim : dims) {
      const Matrix mixing = quick_random(kCauses, dim, 10 + matrices_.size());
      Matrix seen = quick_random(rows, dim, 20 + matrices_.size());
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < dim; ++c) {
          for (std::size_t k = 0; k < kCauses; ++k) seen.row(r)[c] += hidden.row(r)[k] * mixing.row(k)[c];
        }
      }
      matrices_.push_back(std::move(seen));
    }
    for (const Matrix& matrix : matrices_) {
      const std::string name = "space " + std::to_string(spaces_.size());
      spaces_.emplace_back(name, view_rows(matrix.view(), name));
    }
  }
  Toy(const Toy&) = delete;  // the spaces look into the matrices
  Toy& operator=(const Toy&) = delete;
  [[nodiscard]] const std::vector<Space>& spaces() const { return spaces_; }

 private:
  std::vector<Matrix> matrices_;
  std::vector<Space> spaces_;
};

}  // namespace kedge::test
