// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"
#include "compute/kernel.h"
#include "compute/kernel_cases.h"
#include "support.h"

#include <Eigen/LU>

namespace kedge {
namespace {

using test::random_matrix;
using test::unit_rows;

/// The kernel and its ridge by plain loops.
EigenRows<double> whole_matrix(const Matrix& rows, double width, double ridge) {
  const auto n = static_cast<Eigen::Index>(rows.rows());
  EigenRows<double> matrix(n, n);
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    for (std::size_t j = 0; j < rows.rows(); ++j) {
      double cosine = 0;
      for (std::size_t k = 0; k < rows.cols(); ++k) cosine += static_cast<double>(rows.row(i)[k]) * rows.row(j)[k];
      matrix(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) =
          std::exp(width * (cosine - 1)) + (i == j ? ridge : 0);
    }
  }
  return matrix;
}

std::vector<std::size_t> positions_below(std::size_t count, std::size_t step = 1) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < count; i += step) result.push_back(i);
  return result;
}

Matrix64 random_columns(std::size_t rows, std::size_t cols) {
  Matrix64 result(rows, cols);
  std::ranges::copy(random_matrix(rows, cols, 8).cells(), result.cells().begin());
  return result;
}

/// Solutions and diagonal against those of the inverse, as good as the matrix's condition lets them be.
void expect_inverse(const KernelSystem& system, const Matrix& rows, double width, double ridge, double near) {
  const EigenRows<double> inverse = whole_matrix(rows, width, ridge).inverse();
  Matrix64 x = random_columns(rows.rows(), 5);
  const EigenRows<double> wanted = inverse * as_eigen(x.view());
  system.solve(x.view());
  EXPECT_LT((as_eigen(x.view()) - wanted).cwiseAbs().maxCoeff(), near * wanted.cwiseAbs().maxCoeff());
  for (const std::size_t step : {1U, 3U}) {
    const auto positions = positions_below(rows.rows(), step);
    const std::vector<double> found = system.inverse_diagonal(positions);
    ASSERT_EQ(found.size(), positions.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto at = static_cast<Eigen::Index>(positions[i]);
      EXPECT_NEAR(found[i] / inverse(at, at), 1, near) << positions[i];
    }
  }
}

TEST(KernelSystem, IsSolvedAsByTheInverse) {
  for (const std::size_t count : {1U, 2U, 50U, 300U}) {
    for (const std::size_t dim : {7U, 300U}) {  // more than one part of the columns
      const Matrix rows = unit_rows(count, dim, 1);
      const auto system = make_kernel_system(rows.view(), Device::cpu);
      for (const double width : {0.5, 8.0}) {  // over and over, from the same cosines
        SCOPED_TRACE(testing::Message() << count << " rows of " << dim << ", width " << width);
        ASSERT_TRUE(system->factor(width, 1e-3));
        expect_inverse(*system, rows, width, 1e-3, 1e-9);
      }
    }
  }
}

TEST(KernelSystem, TakesRepeatedRowsWithTheSmallestOfRidges) {
  Matrix rows = unit_rows(300, 20, 1);
  for (std::size_t r = 100; r < 200; ++r) std::ranges::copy(rows.row(7), rows.row(r).begin());
  const double ridge = 1e-8 * 300;
  const auto system = make_kernel_system(rows.view(), Device::cpu);
  ASSERT_TRUE(system->factor(1, ridge));
  expect_inverse(*system, rows, 1, ridge, 1e-7);
}

TEST(KernelSystem, TakesARowOfLengthZero) {
  Matrix rows = unit_rows(60, 9, 1);
  std::ranges::fill(rows.row(30), 0.0F);
  const auto system = make_kernel_system(rows.view(), Device::cpu);
  ASSERT_TRUE(system->factor(2, 1e-2));
  expect_inverse(*system, rows, 2, 1e-2, 1e-10);
}

/// Rounding leaves some of them a pivot, which is as good as none.
TEST(KernelSystem, OfRepeatedRowsHasNoSolutionWithoutARidge) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Matrix rows = unit_rows(50, 20, seed);
    std::ranges::copy(rows.row(3), rows.row(40).begin());
    EXPECT_FALSE(make_kernel_system(rows.view(), Device::cpu)->factor(8, 0)) << seed;
  }
}

TEST(KernelSystem, SaysWhereNothingIsLeftToSolve) {
  Matrix rows = unit_rows(100, 9, 1);
  std::ranges::copy(rows.row(3), rows.row(70).begin());
  const auto system = make_kernel_system(rows.view(), Device::cpu);
  EXPECT_FALSE(system->factor(1, 0));
  EXPECT_FALSE(system->factor(std::nan(""), 1));
  ASSERT_TRUE(system->factor(1, 1)) << "what could not be solved before is forgotten";
  expect_inverse(*system, rows, 1, 1, 1e-12);
}

TEST(KernelSystem, SolvesColumnsOfALargerMatrix) {
  const Matrix rows = unit_rows(40, 6, 1);
  const auto system = make_kernel_system(rows.view(), Device::cpu);
  ASSERT_TRUE(system->factor(1, 0.1));
  Matrix64 all = random_columns(40, 9);
  const Matrix64 before = all;
  Matrix64 some(40, 3);
  for (std::size_t r = 0; r < 40; ++r) std::ranges::copy(all.row(r).subspan(4, 3), some.row(r).begin());
  system->solve(all.view().middle_cols(4, 3));
  system->solve(some.view());
  for (std::size_t r = 0; r < 40; ++r) {
    EXPECT_THAT(all.row(r).subspan(4, 3), ::testing::ElementsAreArray(some.row(r)));
    EXPECT_THAT(all.row(r).first(4), ::testing::ElementsAreArray(before.row(r).first(4)));
    EXPECT_THAT(all.row(r).last(2), ::testing::ElementsAreArray(before.row(r).last(2)));
  }
}

TEST(KernelSystem, OfNoPositionsHasNoDiagonal) {
  const Matrix rows = unit_rows(5, 6, 1);
  const auto system = make_kernel_system(rows.view(), Device::cpu);
  ASSERT_TRUE(system->factor(1, 0.1));
  EXPECT_TRUE(system->inverse_diagonal({}).empty());
}

}  // namespace
}  // namespace kedge
