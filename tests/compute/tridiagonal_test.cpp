// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"
#include "compute/eigh.h"
#include "compute/products.h"
#include "compute/threads.h"
#include "compute/tridiagonal.h"
#include "support.h"

#include <algorithm>
#include <atomic>

namespace kedge {
namespace {

using test::expect_error;
using test::random_matrix;

Matrix64 symmetric_matrix(std::size_t dim) {
  const Matrix random = random_matrix(dim, dim, 3);
  Matrix64 result(dim, dim);
  const auto x = as_eigen(random.view()).cast<double>();
  as_eigen(result.view()) = x + x.transpose();
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

// Either side of where LAPACK is left, and of whole panels and strips.
class EverySize : public ::testing::TestWithParam<std::size_t> {};

TEST_P(EverySize, TheMatrixIsWhatItWasMadeOf) {
  const Matrix64 given = symmetric_matrix(GetParam());
  Matrix64 upper = given;
  as_eigen(upper.view()).triangularView<Eigen::StrictlyLower>().setConstant(99);  // which nobody reads
  const std::vector<double> wanted = eigenvalues(given);
  const unsigned before = threads();
  for (const unsigned count : {1U, 8U}) {  // on many LAPACK does all of it, whatever the cores
    set_threads(count);
    const Work work;
    const Tridiagonal made(upper);
    EXPECT_TRUE(put_together(made).isApprox(as_eigen(given.view()), 1e-12)) << count;
    const std::vector<double> found = made.eigenvalues();
    EXPECT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < std::min(found.size(), wanted.size()); ++i) {
      EXPECT_NEAR(found[i], wanted[i], 1e-12 * static_cast<double>(GetParam())) << count;
    }
  }
  set_threads(before);
}
INSTANTIATE_TEST_SUITE_P(Tridiagonal, EverySize, ::testing::Values(1, 2, 40, 191, 192, 203, 256, 515));

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

// LAPACK refuses it for all of the matrix, and ours asks LAPACK for the rest of a large one.
TEST(Tridiagonal, OfAMatrixWithNanIsRefused) {
  const OneThread alone;
  for (const std::size_t dim : {20U, 300U}) {
    Matrix64 given = symmetric_matrix(dim);
    given.row(7)[11] = given.row(11)[7] = std::nan("");
    expect_error(
        Code::failed, [&] { (void)Tridiagonal(given); }, "did not converge");
  }
}

TEST(Tridiagonal, TakesAMatrixThatIsDiagonalAlready) {
  Matrix64 given(300, 300);
  for (std::size_t i = 0; i < 300; ++i) given.row(i)[i] = static_cast<double>(i % 7);
  EXPECT_TRUE(put_together(Tridiagonal(given)).isApprox(as_eigen(given.view()), 1e-14));
}

}  // namespace
}  // namespace kedge
