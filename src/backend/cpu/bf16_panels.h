// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/backend.h"
#include "backend/cpu/bf16_kernel.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kedge::cpu {

/// A factor of a product: its lines are the rows of a left one, and the columns of a right one.
enum class Side { left, right };

/// A factor rounded to bfloat16, in the panels that a kernel reads. Lines and values that fill up a panel are zero.
class Bf16Panels {
 public:
  Bf16Panels(const Bf16Kernel& kernel, Side side);

  /// Lines are the rows of `matrix`, or its columns where it is `turned`. Memory is kept for the next time.
  void pack(ConstPanel matrix, bool turned);

  [[nodiscard]] std::size_t lines() const { return lines_; }
  [[nodiscard]] std::size_t inner() const { return inner_; }  ///< values of a line, filled up
  [[nodiscard]] std::size_t panels() const { return (lines_ + width_ - 1) / width_; }
  /// What a kernel reads of a panel from one value on, at the beginning of a group.
  [[nodiscard]] const std::uint16_t* at(std::size_t panel, std::size_t value) const {
    return reinterpret_cast<const std::uint16_t*>(cells_.data()) + (panel * inner_ + value) * width_;
  }

 private:
  struct alignas(64) CacheLine {
    std::uint16_t values[32];
  };
  template <std::size_t group>
  void pack_rows(ConstPanel matrix);
  template <std::size_t group>
  void pack_columns(ConstPanel matrix);
  [[nodiscard]] std::uint16_t* to(std::size_t panel, std::size_t value) {
    return reinterpret_cast<std::uint16_t*>(cells_.data()) + (panel * inner_ + value) * width_;
  }

  std::size_t width_, group_, unit_;  ///< lines of a panel, values of a group, and what the inner size is a multiple of
  std::size_t lines_ = 0, inner_ = 0;
  std::vector<CacheLine> cells_;
};

}  // namespace kedge::cpu
