// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/backend.h"

#include <kedge/matrix.h>

#include <cstddef>
#include <vector>

namespace kedge::cpu {

/// A matrix that never changes, and the sums of its quarters that Strassen's way of multiplying needs: seven products
/// of half the size instead of eight, at each of its levels. As the sums are made only once, what is left to add is
/// little. Both a b and a b^T take the same sums.
class StrassenMatrix {
 public:
  /// The matrix must outlive it. Odd rows and columns are multiplied as usual.
  StrassenMatrix(ConstPanel matrix, unsigned levels);

  void multiply_nn(ConstPanel a, Panel c);  ///< c = a b
  void multiply_nt(ConstPanel a, Panel c);  ///< c = a b^T

  /// How many levels pay: products must stay large enough for all threads, and the sums must fit.
  [[nodiscard]] static unsigned levels_for(std::size_t rows, std::size_t cols, unsigned threads);

 private:
  enum class Turned { no, yes };
  struct Step;
  [[nodiscard]] static const Step* steps(Turned turned);
  template <Turned turned>
  void multiply(ConstPanel a, float beta, Panel c);
  template <Turned turned>
  static void multiply_plainly(ConstPanel a, ConstPanel b, float beta, Panel c);
  template <Turned turned>
  void multiply_even_part(ConstPanel a, float beta, Panel c);

  ConstPanel matrix_;
  Matrix own_;                         ///< where it is a sum
  std::vector<StrassenMatrix> parts_;  ///< seven, or none at the last level
  std::vector<float> left_, made_;     ///< a sum of quarters of a, and a product
};

}  // namespace kedge::cpu
