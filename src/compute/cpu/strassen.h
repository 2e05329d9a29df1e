// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <kedge/matrix.h>

#include <cstddef>
#include <vector>

namespace kedge::cpu {

/// A matrix that never changes, and the sums of its quarters that Strassen's way of multiplying needs: seven products
/// of half the size instead of eight. As the sums are made only once, what is left to add is little. In Winograd's form
/// of it there are four sums, and both a b and a b^T take the same ones.
class StrassenMatrix {
 public:
  /// The matrix must outlive it. Odd rows and columns are multiplied as usual; so is all, without the sums.
  StrassenMatrix(ConstPanel matrix, bool with_sums);

  void multiply_nn(ConstPanel a, Panel c);  ///< c = a b
  void multiply_nt(ConstPanel a, Panel c);  ///< c = a b^T

  /// Whether sums pay: products must stay large enough for all threads, and the sums must fit.
  [[nodiscard]] static bool pays(std::size_t rows, std::size_t cols, unsigned threads);

 private:
  enum class Turned { no, yes };
  template <Turned turned>
  void multiply(ConstPanel a, Panel c);
  template <Turned turned>
  void multiply_even_part(ConstPanel a, Panel c);

  ConstPanel matrix_;
  std::vector<Matrix> sums_;       ///< four, or none
  std::vector<ConstPanel> parts_;  ///< three quarters of the matrix, and the sums
  std::vector<float> left_;        ///< a sum of quarters of a
};

}  // namespace kedge::cpu
