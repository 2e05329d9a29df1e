// SPDX-License-Identifier: Apache-2.0
#include "compute/kernel.h"
#include "compute/kernel_cases.h"
#include "support.h"

#include <vector>

namespace kedge {
namespace {

using test::KernelCase;

/// The sum of some thousand float32 terms, as the largest result is rounded.
constexpr double kRounding = 3e-6;

Matrix applied(const KernelCase& c, const Matrix& x) {
  Matrix y(x.rows(), c.bias.size());
  apply_kernel(c.function(), x.view(), y.view());
  return y;
}

/// One row at a time.
Matrix applied_by_vector(const KernelCase& c, const Matrix& x) {
  Matrix y(x.rows(), c.bias.size());
  for (std::size_t r = 0; r < x.rows(); ++r) apply_kernel(c.function(), x.row(r), y.row(r));
  return y;
}

void expect_close(const Matrix& found, const Matrix64& wanted) {
  double scale = 0, worst = 0;
  for (std::size_t i = 0; i < wanted.cells().size(); ++i) {
    scale = std::max(scale, std::abs(wanted.cells()[i]));
    worst = test::worse(worst, std::abs(found.cells()[i] - wanted.cells()[i]));
  }
  EXPECT_LE(worst, kRounding * scale);
}

TEST(KernelFunction, IsThePlainSum) {
  for (const bool projected : {false, true}) {
    for (const std::size_t support : {1U, 3U, 511U, 1700U}) {
      for (const float width : {0.01F, 1.0F, 20.0F}) {
        const KernelCase c(7, 5, support, width, projected);
        const Matrix x = c.embeddings(33);
        const Matrix64 wanted = c.expected(x);
        SCOPED_TRACE(testing::Message() << support << " support rows, width " << width << ", projected " << projected);
        expect_close(applied(c, x), wanted);
        expect_close(applied_by_vector(c, x), wanted);
      }
    }
  }
}

TEST(KernelFunction, TakesAnyNumberOfRowsOnAnyNumberOfThreads) {
  const KernelCase c(19, 3, 600, 2, true);
  const unsigned before = threads();
  for (const unsigned count : {1U, 3U}) {
    set_threads(count);
    for (const std::size_t rows : {0U, 1U, 15U, 257U, 1500U}) {
      const Matrix x = c.embeddings(rows);
      expect_close(applied(c, x), c.expected(x));
    }
  }
  set_threads(before);
}

TEST(KernelFunction, TakesRowsThatAreFurtherApartThanTheyAreLong) {
  const KernelCase c(6, 4, 40, 2, true);
  const Matrix wide = c.embeddings(50, 9);
  const MatrixView<const float> x = wide.view().middle_cols(1, 6);
  Matrix packed(x.rows, x.cols);
  for (std::size_t r = 0; r < x.rows; ++r) std::ranges::copy(x.row(r), packed.row(r).begin());
  Matrix y(50, 7);
  std::ranges::fill(y.cells(), -99.0F);
  apply_kernel(c.function(), x, y.view().middle_cols(2, 4));
  const Matrix wanted = applied(c, packed);
  for (std::size_t r = 0; r < x.rows; ++r) {
    EXPECT_THAT(y.row(r).subspan(2, 4), ::testing::ElementsAreArray(wanted.row(r)));
    EXPECT_EQ(y.row(r)[1], -99);
    EXPECT_EQ(y.row(r)[6], -99);
  }
}

/// f of it is 0, so all that is left is the bias.
TEST(KernelFunction, OfTheMeanIsTheBias) {
  for (const bool projected : {false, true}) {
    const KernelCase c(8, 3, 50, 4, projected);
    Matrix x = c.embeddings(2);
    std::ranges::copy(c.mean, x.row(1).begin());
    EXPECT_THAT(applied(c, x).row(1), ::testing::ElementsAreArray(c.bias));
    EXPECT_THAT(applied_by_vector(c, x).row(1), ::testing::ElementsAreArray(c.bias));
  }
}

TEST(KernelFunction, KnowsNoScale) {
  KernelCase c(8, 3, 50, 4, false);
  std::ranges::fill(c.mean, 0.0F);
  const Matrix x = c.embeddings(20);
  const Matrix64 wanted = c.expected(x);
  for (const float scale : {1e-30F, 1e30F}) {  // float32 cannot hold their squares
    Matrix scaled = x;
    for (float& cell : scaled.cells()) cell *= scale;
    expect_close(applied(c, scaled), wanted);
    expect_close(applied_by_vector(c, scaled), wanted);
  }
}

TEST(KernelFunction, TakesVectorsTooLongForTheStack) {
  const KernelCase c(5000, 2, 9, 3, false);
  const Matrix x = c.embeddings(2);
  expect_close(applied_by_vector(c, x), c.expected(x));
}

TEST(KernelFunction, KeepsNanInItsRow) {
  const KernelCase c(8, 3, 50, 4, true);
  Matrix x = c.embeddings(3);
  x.row(1)[2] = std::nanf("");
  for (const Matrix& y : {applied(c, x), applied_by_vector(c, x)}) {
    EXPECT_TRUE(all_finite(y.row(0)));
    EXPECT_TRUE(all_finite(y.row(2)));
    for (const float value : y.row(1)) EXPECT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace kedge
