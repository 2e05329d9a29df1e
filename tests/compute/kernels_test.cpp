// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/kernels.h"
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
    worst = test::worse(worst, units_apart(row[i], std::exp(-static_cast<double>(i) * kStep / kTau)));
  }
  EXPECT_LT(worst, kUnits);
  EXPECT_EQ(row, columns);
}

TEST(RowKernels, ExponentialsAreWithinTwoUnitsInTheLastPlaceForAllSizesOfNumber) {
  std::vector<float> x;
  x.push_back(-0x1p-30F);
  while (x.back() > -87) x.push_back(x.back() * 1.00002F);
  x.pop_back();
  std::vector<float> out(x.size());
  cpu::exp_below(x, 0, 1, out);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) worst = test::worse(worst, units_apart(out[i], std::exp(double{x[i]})));
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

/// The plain way loses what e^u - 1 - u is to the two terms that are taken off, so the series stands in for it next to
/// 0.
double without_line(double u) {
  if (std::abs(u) > 1e-2) return std::expm1(u) - u;
  return u * u / 2 * (1 + u / 3 * (1 + u / 4 * (1 + u / 5 * (1 + u / 6))));
}

TEST(RowKernels, ExponentialsWithoutTheirLineAreAsGoodNextToZeroAsElsewhere) {
  std::vector<float> u;
  float at = 0x1p-60F;
  while (at < 80) {
    u.insert(u.end(), {at, -at});
    at *= 1.0001F;
  }
  std::vector<float> out = u;
  cpu::exp_without_line(out);
  double worst = 0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    const double exact = without_line(u[i]);
    worst = test::worse(worst, std::abs(static_cast<double>(out[i]) - exact) / exact);
  }
  EXPECT_LT(worst, 8 * 0x1p-24);
}

TEST(RowKernels, ExponentialsWithoutTheirLineEndAtEightyAndKeepNan) {
  std::vector<float> u{0, 80, 1e30F, -80, -1e30F, std::numeric_limits<float>::quiet_NaN()};
  cpu::exp_without_line(u);
  EXPECT_EQ(u[0], 0);
  EXPECT_NEAR(u[1] / std::exp(80.0), 1, 1e-6);
  EXPECT_EQ(u[2], u[1]);
  EXPECT_FLOAT_EQ(u[3], 79);
  EXPECT_EQ(u[4], u[3]);
  EXPECT_TRUE(std::isnan(u[5]));
}

}  // namespace
}  // namespace kedge
