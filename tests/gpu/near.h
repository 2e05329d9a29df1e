// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

namespace kedge::test {

/// The largest difference, relative to the largest value.
template <class T>
double difference(std::span<const T> found, std::span<const T> wanted) {
  double largest = 0;
  double off = found.size() == wanted.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(found.size(), wanted.size()); ++i) {
    const double here = std::abs(static_cast<double>(found[i]) - static_cast<double>(wanted[i]));
    off = std::isnan(here) ? INFINITY : std::max(off, here);
    largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
  }
  return off / largest;
}

template <class T>
CheckPromise near(std::string what, std::span<const T> found, std::span<const T> wanted, double tolerance) {
  const double off = difference(found, wanted);
  return {std::move(what), fmt::format("{:.1e}", off), off < tolerance};
}

}  // namespace kedge::test
