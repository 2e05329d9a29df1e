// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/random.h"

#include <kedge/matrix.h>

#include <cstddef>
#include <vector>

namespace kedge {

/// The order p that makes sum_ik first[i,k] second[p_i,p_k] + sum_i linear[i,p_i] large: the best of local searches
/// that begin at `starts` random orders and swap two places, whichever gain most, until nothing gains. Both matrices
/// are symmetric; `linear` may be empty.
[[nodiscard]] std::vector<std::size_t> assign(const Matrix64& first, const Matrix64& second, const Matrix64& linear,
                                              std::size_t starts, Random& random);

/// That sum.
[[nodiscard]] double assignment_value(const Matrix64& first, const Matrix64& second, const Matrix64& linear,
                                      const std::vector<std::size_t>& order);

/// One local search: what every swap would gain is kept up to date, which takes O(c^2) after a swap.
class SwapSearch {
 public:
  SwapSearch(const Matrix64& first, const Matrix64& second, const Matrix64& linear, std::vector<std::size_t> order);

  struct Swap {
    double gain = 0;
    std::size_t a = 0, b = 0;
  };
  [[nodiscard]] Swap best() const;
  void apply(std::size_t a, std::size_t b);
  /// Of a swap of a and b < a, as it is kept.
  [[nodiscard]] double gain(std::size_t a, std::size_t b) const { return gains_.row(a)[b]; }
  [[nodiscard]] const std::vector<std::size_t>& order() const { return order_; }

 private:
  /// Of all swaps with one place.
  void set_gains(std::size_t a);

  const Matrix64 &first_, &second_, &linear_;
  std::vector<std::size_t> order_;
  Matrix64 permuted_;  ///< second[p_i, p_k]
  Matrix64 gains_;     ///< below the diagonal
  std::vector<double> f_, e_;
};

}  // namespace kedge
