// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <array>
#include <memory>
#include <vector>

namespace kedge::test {

/// A small training of its own, every step the same operations on the same memory: what a backend may record, and let
/// overlap if parts have nothing in common.
class Sequence {
 public:
  enum class Parts { one_after_the_other, side_by_side };
  Sequence(Backend& backend, Parts parts);

  /// Operations only; call it, or record it.
  void step();
  /// All that the steps so far have changed.
  [[nodiscard]] std::vector<Matrix> read();

 private:
  static constexpr std::size_t kParts = 3, kAnchors = 37, kRows = 65;

  /// Shares no memory with the others.
  struct Part {
    std::size_t dim = 0;
    std::unique_ptr<Tensor> rows, anchors, unit, lengths, gram, dmixture;
  };
  void work(std::size_t part);

  Backend& backend_;
  Parts parts_;
  std::array<Part, kParts> part_;
  std::unique_ptr<Tensor> logits_, mixture_, dmixture_, first_moment_, second_moment_, inner_, losses_, log_;
  std::unique_ptr<Integers> taken_;
};

/// True if all cells are the same, bit for bit.
[[nodiscard]] bool same_bits(const Matrix& a, const Matrix& b);
[[nodiscard]] bool same_bits(const std::vector<Matrix>& a, const std::vector<Matrix>& b);

}  // namespace kedge::test
