// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <kedge/fit.h>

#include <vector>

namespace kedge {
namespace {

double seconds(const FitOptions& options, const std::vector<std::size_t>& dims) {
  return fit_cost(options, dims, 10000).seconds;
}

TEST(FitCost, IsToldOfWideSpacesAndOfPairsThatAreRegressed) {
  FitOptions options;
  EXPECT_EQ(seconds(options, {384, 768}), 0);
  EXPECT_GT(seconds(options, {1536, 3072}), 0);
  EXPECT_GT(fit_cost(options, std::vector<std::size_t>{1536, 3072}, 10000).bytes, sizeof(double) * 4608 * 4608);
  options.keep_rows = true;
  const double two = seconds(options, {384, 768}), three = seconds(options, {384, 768, 768});
  EXPECT_GT(two, 0);
  EXPECT_GT(three, 1.5 * two);
  options.attach_by = AttachBy::kernel;
  EXPECT_GT(seconds(options, {384, 768}), 2 * two);
}

}  // namespace
}  // namespace kedge
