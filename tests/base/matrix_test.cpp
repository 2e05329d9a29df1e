// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.h"
#include "support.h"

#include <limits>

namespace kedge {
namespace {

using test::expect_error;

TEST(Matrix, StartsAtZeroAndKeepsItsShape) {
  const Matrix m(3, 2);
  EXPECT_EQ(m.rows(), 3U);
  EXPECT_EQ(m.cols(), 2U);
  EXPECT_THAT(m.cells(), ::testing::Each(0.0F));
}

TEST(Matrix, ViewsReadPaddedRowsByStride) {
  const std::vector<float> padded{1, 2, -99, 3, 4, -99};
  const MatrixView<const float> view{padded.data(), 2, 2, 3};
  EXPECT_THAT(view.row(1), ::testing::ElementsAre(3, 4));
  EXPECT_THAT(view.middle_rows(1, 1).row(0), ::testing::ElementsAre(3, 4));
}

TEST(Checked, ProductsSumsAndIntsSayWhenTheyDoNotFit) {
  constexpr std::size_t kHuge = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(checked_mul(7, 6), 42U);
  expect_error(
      Code::failed, [] { (void)Matrix(kHuge, 2); }, "does not fit in memory");
  expect_error(
      Code::failed, [] { (void)checked_add(kHuge, 1); }, "too large");
  EXPECT_EQ(checked_int(5, "n"), 5);
  expect_error(
      Code::failed, [] { (void)checked_int(std::size_t{1} << 31, "the dimension"); }, "the dimension is 2147483648");
}

}  // namespace
}  // namespace kedge
