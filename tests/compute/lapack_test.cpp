// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"
#include "compute/lapack.h"
#include "compute/products.h"
#include "support.h"

#include <algorithm>
#include <atomic>

namespace kedge {
namespace {

using test::expect_error;
using test::random_matrix;

Matrix64 wide(std::size_t rows, std::size_t cols, unsigned seed) {
  Matrix64 result(rows, cols);
  std::ranges::copy(random_matrix(rows, cols, seed).cells(), result.cells().begin());
  return result;
}

Matrix64 symmetric_matrix(std::size_t dim) {
  Matrix64 result = wide(dim, dim, 3);
  const EigenRows<double> x = as_eigen(result.view());
  as_eigen(result.view()) += x.transpose();
  return result;
}

/// Q T Q^T
EigenRows<double> put_together(const Tridiagonal& found) {
  const std::size_t dim = found.dim();
  Matrix64 cells(dim, dim);
  for (std::size_t i = 0; i < dim; ++i) {
    cells.row(i)[i] = found.diagonal()[i];
    if (i + 1 < dim) cells.row(i)[i + 1] = cells.row(i + 1)[i] = found.off_diagonal()[i];
  }
  found.to_outside(cells.view());
  found.to_outside_by_row(cells.view());
  return as_eigen(cells.view());
}

class EverySize : public ::testing::TestWithParam<std::size_t> {};

TEST_P(EverySize, TheMatrixIsWhatItWasMadeOf) {
  const Matrix64 given = symmetric_matrix(GetParam());
  Matrix64 upper = given;
  as_eigen(upper.view()).triangularView<Eigen::StrictlyLower>().setConstant(99);  // which nobody reads
  const Tridiagonal made(upper);
  EXPECT_TRUE(put_together(made).isApprox(as_eigen(given.view()), 1e-12));
  const std::vector<double> wanted = eigenvalues(given), found = made.eigenvalues();
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], wanted[i], 1e-12 * static_cast<double>(GetParam()));
  }
}
INSTANTIATE_TEST_SUITE_P(Tridiagonal, EverySize, ::testing::Values(1, 2, 40, 203, 515));

// LAPACK changes what it multiplies with while it works.
TEST(Tridiagonal, ManyThreadsMayMultiplyWithOne) {
  const OneThread alone;
  for (const std::size_t dim : {20U, 60U, 180U}) {
    const Tridiagonal shared(symmetric_matrix(dim));
    const Matrix64 given = symmetric_matrix(dim);
    Matrix64 wanted = given;
    shared.to_inside(wanted.view());
    std::atomic<int> wrong{0};
    parallel_blocks(2000, 1, 4, [&] {
      return [&](std::size_t, std::size_t) {
        Matrix64 found = given;
        shared.to_inside(found.view());
        if (!std::ranges::equal(found.cells(), wanted.cells())) ++wrong;
      };
    });
    EXPECT_EQ(wrong, 0) << dim;
  }
}

TEST(Tridiagonal, OfAMatrixWithNanIsRefused) {
  Matrix64 given = symmetric_matrix(20);
  given.row(7)[11] = given.row(11)[7] = std::nan("");
  expect_error(
      Code::failed, [&] { (void)Tridiagonal(given); }, "did not converge");
}

TEST(Tridiagonal, TakesAMatrixThatIsDiagonalAlready) {
  Matrix64 given(300, 300);
  for (std::size_t i = 0; i < 300; ++i) given.row(i)[i] = static_cast<double>(i % 7);
  EXPECT_TRUE(put_together(Tridiagonal(given)).isApprox(as_eigen(given.view()), 1e-14));
}

TEST(Cholesky, SolvesEveryRow) {
  const Matrix64 rows = wide(12, 5, 1);
  Matrix64 symmetric(5, 5);
  set_product(symmetric.view(), as_eigen(rows.view()).transpose(), rows.view());
  const Cholesky cholesky(symmetric);
  ASSERT_TRUE(cholesky.exists());
  const Matrix64 wanted = wide(3, 5, 2);
  Matrix64 solved = wanted;
  cholesky.solve(solved.view());
  EXPECT_TRUE(product(solved.view(), symmetric.view()).isApprox(as_eigen(wanted.view()), 1e-12));
}

TEST(Cholesky, DividesRowsAndColumnsAlike) {
  const Matrix64 rows = wide(12, 5, 1);
  Matrix64 symmetric(5, 5);
  set_product(symmetric.view(), as_eigen(rows.view()).transpose(), rows.view());
  const Cholesky cholesky(symmetric);
  Matrix64 white = symmetric;
  cholesky.divide_rows(white.view());
  cholesky.divide_columns(white.view());
  EXPECT_TRUE(as_eigen(white.view()).isIdentity(1e-12));
  Matrix64 whitened = wide(3, 5, 2);
  const Matrix64 given = whitened, weights = wide(4, 5, 3);
  cholesky.divide_rows(whitened.view());
  Matrix64 folded = weights;
  cholesky.divide_rows(folded.view(), Cholesky::Side::adjoint);
  EXPECT_TRUE(product(folded.view(), as_eigen(given.view()).transpose())
                  .isApprox(product(weights.view(), as_eigen(whitened.view()).transpose()), 1e-12));
}

TEST(Cholesky, KnowsWhatItCannotDo) {
  Matrix64 matrix(2, 2);
  matrix.row(0)[0] = 1;
  matrix.row(1)[1] = -1;
  EXPECT_FALSE(Cholesky(matrix).exists());
  matrix.row(1)[1] = std::nan("");
  EXPECT_FALSE(Cholesky(matrix).exists());
  matrix.row(1)[1] = 1e-8;
  const Cholesky poor(matrix);
  ASSERT_TRUE(poor.exists());
  EXPECT_NEAR(poor.reciprocal_condition(), 1e-8, 1e-12);
}

}  // namespace
}  // namespace kedge
