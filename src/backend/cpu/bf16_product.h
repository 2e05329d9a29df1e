// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/backend.h"
#include "backend/cpu/bf16_panels.h"

namespace kedge::cpu {

/// c = alpha left right + beta c, on all threads; the same bits for any number of them. Where beta is 0, nobody looks
/// at c.
void multiply(const Bf16Kernel& kernel, const Bf16Panels& left, const Bf16Panels& right, float alpha, float beta,
              Panel c);

/// Products of matrices that are rounded to bfloat16 on the way, and summed in float32.
class Bf16Products {
 public:
  explicit Bf16Products(const Bf16Kernel& kernel)
      : kernel_(kernel), left_(kernel, Side::left), right_(kernel, Side::right) {}

  /// c = alpha a b + beta c, with a or b turned.
  void multiply(float alpha, ConstPanel a, bool turn_a, ConstPanel b, bool turn_b, float beta, Panel c);
  /// c = a b, for a b that is there already.
  void multiply(ConstPanel a, const Bf16Panels& b, Panel c);
  [[nodiscard]] const Bf16Kernel& kernel() const { return kernel_; }

 private:
  const Bf16Kernel& kernel_;
  Bf16Panels left_, right_;  ///< of the product under way
};

/// A matrix that never changes, for products with it and with its transpose.
class Bf16Matrix final : public Packed {
 public:
  Bf16Matrix(const Bf16Kernel& kernel, ConstPanel matrix);
  [[nodiscard]] const Bf16Panels& plain() const { return plain_; }
  [[nodiscard]] const Bf16Panels& turned() const { return turned_; }

 private:
  Bf16Panels plain_, turned_;
};

}  // namespace kedge::cpu
