// SPDX-License-Identifier: Apache-2.0
#include "compute/products.h"
#include "space/sum_rows.h"
#include "space/whitening.h"
#include "support.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kedge {
namespace {

using test::expect_error;
using test::random_matrix;
using test::space_of;

Matrix64 block_of(const Matrix& matrix, std::size_t first, std::size_t rows) {
  Matrix64 block(rows, matrix.cols());
  for (std::size_t r = 0; r < rows; ++r) std::ranges::copy(matrix.row(first + r), block.row(r).begin());
  return block;
}

TEST(Whitening, MakesTheCovarianceTheIdentity) {
  Matrix x = random_matrix(800, 6, 3);
  for (std::size_t r = 0; r < x.rows(); ++r) {
    x.row(r)[1] = 50 * x.row(r)[1] + x.row(r)[0];
    x.row(r)[5] = 0.01F * x.row(r)[5] + 9;
  }
  const Moments moments = compute_moments(space_of("x", x));
  Matrix64 white = block_of(x, 0, 800);
  whiten(make_whitening(moments, {0, 0}), white.view());
  Moments moments_of_white({{"white", 6}});
  add_and_overwrite(moments_of_white, white.view());
  const Matrix64 covariance = moments_of_white.covariance();
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = 0; j < 6; ++j) EXPECT_NEAR(covariance.row(i)[j], i == j ? 1 : 0, 1e-8);
  }
}

TEST(Whitening, ShrinkageTakesRankDeficientAndConstantColumns) {
  Matrix x = random_matrix(20, 30, 4);  // fewer rows than columns
  for (std::size_t r = 0; r < x.rows(); ++r) {
    x.row(r)[3] = 4;            // never varies
    x.row(r)[7] = x.row(r)[8];  // twice the same
  }
  const Moments moments = compute_moments(space_of("x", x));
  const Whitening whitening = make_whitening(moments, {});
  for (const double value : whitening.whitener.cells()) EXPECT_TRUE(std::isfinite(value));
  const Whitening barely = make_whitening(moments, {0, 5e-8});
  for (const double value : barely.whitener.cells()) EXPECT_TRUE(std::isfinite(value));
  expect_error(
      Code::bad_argument,
      [&] {
        (void)make_whitening(moments, {0, 0});
      },
      "singular", "raise the shrinkage");
}

/// Whichever way it is found, it is the whitener but for a rotation, and does the same to rows, columns and weights.
void expect_basis(const WhiteningBasis& basis, const Whitening& whitening) {
  const auto dim = static_cast<Eigen::Index>(basis.dim());
  EigenRows<double> whitened = EigenRows<double>::Identity(dim, dim);  // rows of B^T
  const auto view = [](EigenRows<double>& cells) {
    const auto cols = static_cast<std::size_t>(cells.cols());
    return MatrixView<double>{cells.data(), static_cast<std::size_t>(cells.rows()), cols, cols};
  };
  basis.whitener()->apply_to_rows(view(whitened));
  const EigenRows<double> expected = product(whitening.whitener.view(), whitening.whitener.view());
  EXPECT_TRUE(product(whitened, whitened.transpose()).isApprox(expected, 1e-8));
  const Matrix given = random_matrix(basis.dim(), basis.dim(), 9);
  const EigenRows<double> x = as_eigen(given.view()).cast<double>();
  EigenRows<double> columns = x.leftCols(2);
  basis.whitener()->apply_to_columns(view(columns));
  EXPECT_TRUE(columns.isApprox(product(whitened.transpose(), EigenRows<double>(x.leftCols(2))), 1e-8));
  EigenRows<double> folded = x.topRows(2);
  basis.whitener()->adjoint_to_rows(view(folded));
  EXPECT_TRUE(folded.isApprox(product(EigenRows<double>(x.topRows(2)), whitened.transpose()), 1e-8));
  EigenRows<double> folded_columns = x.leftCols(2);
  basis.whitener()->adjoint_to_columns(view(folded_columns));
  EXPECT_TRUE(folded_columns.isApprox(product(whitened, EigenRows<double>(x.leftCols(2))), 1e-8));
}

TEST(WhiteningBasis, IsTheWhitenerButForARotation) {
  Matrix x = random_matrix(40, 12, 5);
  for (std::size_t r = 0; r < x.rows(); ++r) x.row(r)[2] = 30 * x.row(r)[2] + x.row(r)[4];
  const Moments moments = compute_moments(space_of("x", x));
  expect_basis(WhiteningBasis(moments, {}), make_whitening(moments, {}));
  expect_basis(WhiteningBasis(make_whitening(moments, {})), make_whitening(moments, {}));
}

TEST(WhiteningBasis, TakesEigenvectorsWhereTheCovarianceIsNearlySingular) {
  Matrix x = random_matrix(40, 6, 5);
  for (std::size_t r = 0; r < x.rows(); ++r) x.row(r)[2] = 1e-7F * x.row(r)[2];
  const Moments moments = compute_moments(space_of("x", x));
  expect_basis(WhiteningBasis(moments, {0, 0}), make_whitening(moments, {0, 0}));
  for (std::size_t r = 0; r < x.rows(); ++r) x.row(r)[2] = 7;
  const Moments constant = compute_moments(space_of("x", x));
  expect_error(
      Code::bad_argument,
      [&] {
        (void)WhiteningBasis(constant, {0, 0});
      },
      "singular", "raise the shrinkage");
}

TEST(Moments, LeaveOutHigherSumsWhereNobodyNeedsThem) {
  const Matrix x = random_matrix(300, 5, 6);
  const Space space = space_of("x", x);
  const Moments all = compute_moments(space);
  const Moments second = compute_joint_moments({&space, 1}, Device::cpu, Highest::second);
  EXPECT_FALSE(all.fourth().empty());
  EXPECT_TRUE(second.fourth().empty());
  EXPECT_TRUE(std::ranges::equal(all.scatter().cells(), second.scatter().cells()));
}

TEST(Whitening, RefusesOptionsOutOfRange) {
  const Matrix x = random_matrix(20, 3, 4);
  const Moments moments = compute_moments(space_of("x", x));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_error(
      Code::bad_argument,
      [&] {
        (void)make_whitening(moments, {-0.1, 0});
      },
      "shrinkage is -0.1", "0 to 1");
  expect_error(
      Code::bad_argument,
      [&] {
        (void)make_whitening(moments, {nan, 0});
      },
      "shrinkage is nan");
  expect_error(
      Code::bad_argument,
      [&] {
        (void)make_whitening(moments, {0.1, -1});
      },
      "epsilon is -1");
}

TEST(Whitening, RefusesASpaceThatNeverVaries) {
  for (const std::size_t rows : {10U, 200U, 5000U}) {  // sums of many equal values round
    Matrix x(rows, 3);
    for (float& value : x.cells()) value = 0.1F;
    expect_error(
        Code::bad_file, [&] { (void)compute_moments(space_of("flat", x)); }, "'flat'", "all the same");
  }
}

}  // namespace
}  // namespace kedge
