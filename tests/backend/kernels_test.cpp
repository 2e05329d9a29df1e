// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/exponentials.h"
#include "backend/cpu/kernels.h"
#include "support.h"

#include <limits>
#include <vector>

namespace kedge {
namespace {

constexpr double kUnits = 2;  // in the last place

double units_apart(float found, double exact) {
  const auto nearest = static_cast<float>(exact);
  const double unit = static_cast<double>(std::nextafter(nearest, 2.0F)) - static_cast<double>(nearest);
  return std::abs(static_cast<double>(found) - exact) / unit;
}

/// Cosines and a temperature for which nothing is rounded before the exponential is taken.
TEST(RowKernels, ExponentialsOfCosinesAreWithinTwoUnitsInTheLastPlace) {
  constexpr std::size_t kSteps = std::size_t{1} << 21;
  constexpr float kStep = 0x1p-20F, kTau = 0x1p-5F;
  std::vector<float> row(kSteps), columns(kSteps);
  for (std::size_t i = 0; i < kSteps; ++i) row[i] = 1 - static_cast<float>(i) * kStep;
  (void)cpu::exponentials(row, kTau, columns);
  double worst = 0;
  for (std::size_t i = 0; i < kSteps; ++i) {
    worst = std::max(worst, units_apart(row[i], std::exp(-static_cast<double>(i) * kStep / kTau)));
  }
  EXPECT_LT(worst, kUnits);
  EXPECT_EQ(row, columns);
}

TEST(RowKernels, ExponentialsAreWithinTwoUnitsInTheLastPlaceForAllSizesOfNumber) {
  std::vector<float> x;
  for (float at = -0x1p-30F; at > -87; at *= 1.00002F) x.push_back(at);
  std::vector<float> out(x.size());
  cpu::exp_below(x, 0, 1, out);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, units_apart(out[i], std::exp(double{x[i]})));
  EXPECT_LT(worst, kUnits);
}

TEST(RowKernels, ExponentialsEndWhereFloatsDoAndKeepNan) {
  const std::vector<float> x{0, -87, -1e30F, std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> out(x.size());
  cpu::exp_below(x, 0, 1, out);
  EXPECT_EQ(out[0], 1);
  EXPECT_GT(out[1], 0);
  EXPECT_EQ(out[2], out[1]);
  EXPECT_TRUE(std::isnan(out[3]));
}

}  // namespace
}  // namespace kedge
