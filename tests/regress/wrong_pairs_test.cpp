// SPDX-License-Identifier: Apache-2.0
#include "regress/wrong_pairs.h"
#include "support.h"

#include <algorithm>

namespace kedge {
namespace {

using test::random_matrix;

constexpr std::size_t kRows = 600;

/// Two views of the same hidden causes, with noise of their own; the second's first rows go round by one place.
struct Views {
  explicit Views(std::size_t wrong, float noise = 0.5F) : a(kRows, 20), b(kRows, 30) {
    const Matrix hidden = random_matrix(kRows, 12, 1);
    for (unsigned side = 0; side < 2; ++side) {
      Matrix64& x = side == 0 ? a : b;
      const Matrix mix = random_matrix(12, x.cols(), 10 + side), own = random_matrix(kRows, x.cols(), 20 + side);
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t c = 0; c < x.cols(); ++c) {
          x.row(r)[c] = 4 + noise * own.row(r)[c];
          for (std::size_t k = 0; k < 12; ++k) x.row(r)[c] += hidden.row(r)[k] * mix.row(k)[c];
        }
      }
    }
    std::ranges::rotate(b.cells().subspan(0, wrong * b.cols()), b.row(wrong > 0 ? 1 : 0).begin());
  }
  [[nodiscard]] PairDoubts doubts() const { return doubt_pairs(a.view(), b.view(), 5); }

  Matrix64 a, b;
};

double count(const std::vector<bool>& found, std::size_t begin, std::size_t end) {
  return static_cast<double>(std::count(found.begin() + static_cast<std::ptrdiff_t>(begin),
                                        found.begin() + static_cast<std::ptrdiff_t>(end), true));
}

TEST(WrongPairs, RightPairsAreAllKept) {
  const PairDoubts found = Views(0).doubts();
  EXPECT_LT(found.share, 0.01);
  EXPECT_LE(count(found.wrong, 0, kRows), 2);
}

TEST(WrongPairs, AnyShareUpToThreeQuartersIsFound) {
  for (const std::size_t wrong : {30UL, 150UL, 300UL, 450UL}) {
    const PairDoubts found = Views(wrong).doubts();
    EXPECT_NEAR(found.share, static_cast<double>(wrong) / kRows, 0.08) << wrong;
    EXPECT_GE(count(found.wrong, 0, wrong), 0.8 * static_cast<double>(wrong)) << wrong;
    EXPECT_LE(count(found.wrong, wrong, kRows), 0.05 * static_cast<double>(kRows - wrong)) << wrong;
  }
}

TEST(WrongPairs, AllAreWrongWhereNothingHoldsRowsTogether) {
  const PairDoubts found = Views(kRows).doubts();
  EXPECT_GT(found.share, 0.9);
  EXPECT_EQ(count(found.wrong, 0, kRows), kRows);
}

TEST(WrongPairs, RowsWithoutAnyVarianceAreNoProblem) {
  Views views(0);
  std::ranges::fill(views.b.cells(), 1.0);
  EXPECT_EQ(count(views.doubts().wrong, 0, kRows), 0);
}

}  // namespace
}  // namespace kedge
