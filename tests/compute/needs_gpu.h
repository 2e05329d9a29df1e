// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/devices.h"
#include "support.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace kedge::test {

/// Tests that say why they are skipped if there is no GPU.
class NeedsGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = missing(Device::cuda)) GTEST_SKIP() << *reason;
  }
};

/// The largest difference, relative to the largest value.
template <class T>
double difference(std::span<const T> found, std::span<const T> wanted) {
  EXPECT_EQ(found.size(), wanted.size());
  double largest = 0, off = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
    const double here = std::abs(static_cast<double>(found[i]) - static_cast<double>(wanted[i]));
    off = std::isnan(here) ? here : std::max(off, here);
  }
  return off / largest;
}
template <class T>
double difference(const BasicMatrix<T>& found, const BasicMatrix<T>& wanted) {
  return difference<T>(found.cells(), wanted.cells());
}

}  // namespace kedge::test
