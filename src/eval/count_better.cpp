// SPDX-License-Identifier: Apache-2.0
#include "eval/count_better.h"

#include "base/eigen.h"

#include <cmath>
#include <limits>

namespace kedge {

float near_tie(std::size_t dim) {
  return 2 * std::sqrt(static_cast<float>(dim)) * std::numeric_limits<float>::epsilon();
}

double exact_product(std::span<const float> a, std::span<const float> b) {
  return as_eigen(a).cast<double>().dot(as_eigen(b).cast<double>());
}

std::size_t count_better(const CountedKey& counted, std::span<const float> products, std::span<const float> query,
                         MatrixView<const float> keys, std::size_t first_key, float near) {
  const auto threshold = static_cast<float>(counted.product);
  const float above = threshold + near;
  const float below = threshold - near;
  std::size_t surely = 0;
  std::size_t maybe = 0;
  for (const float product : products) {
    surely += static_cast<std::size_t>(product > above);
    maybe += static_cast<std::size_t>(product >= below);
  }
  if (surely == maybe) return surely;
  for (std::size_t j = 0; j < products.size(); ++j) {
    const std::size_t key = first_key + j;
    if (products[j] > above || products[j] < below || key == counted.number) continue;
    const double product = exact_product(query, keys.row(j));
    const bool before = counted.in_order && key < counted.number;
    surely += static_cast<std::size_t>(before ? product >= counted.product : product > counted.product);
  }
  return surely;
}

}  // namespace kedge
