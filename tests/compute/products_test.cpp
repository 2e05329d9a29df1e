// SPDX-License-Identifier: Apache-2.0
#include "compute/products.h"
#include "support.h"

#include <cmath>

namespace kedge {
namespace {

using test::random_matrix;

Matrix64 wide(std::size_t rows, std::size_t cols, unsigned seed) {
  Matrix64 result(rows, cols);
  std::ranges::copy(random_matrix(rows, cols, seed).cells(), result.cells().begin());
  return result;
}

/// The plain loop, over the cells as a caller means them.
template <class A, class B>
void expect_product(const EigenRows<double>& found, const A& a, const B& b) {
  ASSERT_EQ(found.rows(), a.rows());
  ASSERT_EQ(found.cols(), b.cols());
  for (Eigen::Index r = 0; r < found.rows(); ++r) {
    for (Eigen::Index c = 0; c < found.cols(); ++c) {
      double sum = 0;
      for (Eigen::Index k = 0; k < a.cols(); ++k) sum += a(r, k) * b(k, c);
      EXPECT_NEAR(found(r, c), sum, 1e-13);
    }
  }
}

TEST(Products, TakeEveryKindOfRowsAndTheirTransposes) {
  const Matrix64 a = wide(4, 7, 1);
  const Matrix64 b = wide(7, 3, 2);
  const auto left = as_eigen(a.view());
  const auto right = as_eigen(b.view());
  expect_product(product(a.view(), b.view()), left, right);
  const EigenRows<double> left_turned = left.transpose();
  const Eigen::MatrixXd right_by_column = right;
  expect_product(product(left_turned.transpose(), right_by_column), left, right);
  expect_product(product(left.row(2), right), left.row(2), right);
  expect_product(product(left.middleCols(1, 3), right.middleRows(1, 3)), left.middleCols(1, 3), right.middleRows(1, 3));
  const Eigen::RowVectorXd line = left.row(0);
  expect_product(product(line.transpose(), line), line.transpose(), line);
}

TEST(Products, SetForgetsAndAddKeepsWhatWasThere) {
  const Matrix64 a = wide(3, 5, 1);
  const Matrix64 b = wide(5, 2, 2);
  const EigenRows<double> once = product(a.view(), b.view());
  EigenRows<double> to = EigenRows<double>::Constant(3, 2, std::nan(""));
  set_product(to, a.view(), b.view(), 2.0);
  EXPECT_TRUE(to.isApprox(2 * once, 1e-14));
  add_product(to, a.view(), b.view());
  EXPECT_TRUE(to.isApprox(3 * once, 1e-14));
}

TEST(Products, WritePartOfALargerMatrix) {
  const Matrix64 a = wide(2, 5, 1);
  const Matrix64 b = wide(5, 2, 2);
  Matrix64 all(4, 6);
  auto part = as_eigen(all.view()).block(1, 3, 2, 2);
  set_product(part, a.view(), b.view());
  expect_product(part, as_eigen(a.view()), as_eigen(b.view()));
  EXPECT_EQ(as_eigen(all.view()).cwiseAbs().sum(), part.cwiseAbs().sum());
}

TEST(Products, OfNothingAreZero) {
  const Matrix64 a(3, 0);
  const Matrix64 b(0, 2);
  EXPECT_EQ(product(a.view(), b.view()), EigenRows<double>::Zero(3, 2));
  EXPECT_EQ(product(Matrix64(0, 4).view(), Matrix64(4, 2).view()).rows(), 0);
}

TEST(Products, ShapesThatDoNotFitAreRefused) {
  const Matrix64 a = wide(3, 5, 1);
  Matrix64 to(3, 3);
  const auto words = "shapes do not fit";
  test::expect_error(
      Code::failed, [&] { (void)product(a.view(), a.view()); }, words);
  test::expect_error(
      Code::failed, [&] { set_product(to.view(), a.view(), wide(5, 2, 2).view()); }, words);
  test::expect_error(
      Code::failed, [&] { add_gram(to.view(), Triangle::upper, a.view()); }, words);
}

TEST(Products, OneTriangleOfAGramMatrix) {
  const Matrix64 rows = wide(9, 4, 3);
  const EigenRows<double> whole = product(as_eigen(rows.view()).transpose(), rows.view());
  for (const std::size_t count : {std::size_t{1}, rows.rows()}) {  // one row takes another way
    const auto used = rows.view().middle_rows(0, count);
    const EigenRows<double> expected = product(as_eigen(used).transpose(), used);
    for (const Triangle triangle : {Triangle::upper, Triangle::lower}) {
      Matrix64 gram(4, 4);
      add_gram(gram.view(), triangle, used, 0.5);
      for (std::size_t r = 0; r < 4; ++r) {
        for (std::size_t c = 0; c < 4; ++c) {
          const bool inside = triangle == Triangle::upper ? r <= c : r >= c;
          const double half = 0.5 * expected(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(c));
          EXPECT_NEAR(gram.row(r)[c], inside ? half : 0, 1e-13);
        }
      }
    }
  }
}

TEST(Products, ColumnsAreSummedOverRows) {
  const Matrix rows = random_matrix(6, 4, 5);
  const Eigen::RowVectorXf expected = as_eigen(rows.view()).colwise().sum();
  EXPECT_TRUE(column_sums(rows.view()).isApprox(expected, 1e-5F));
  EXPECT_TRUE(column_means(rows.view()).isApprox(expected / 6, 1e-5F));
}

}  // namespace
}  // namespace kedge
