// SPDX-License-Identifier: Apache-2.0
#include "backend/dense.h"

#include "backend/cuda/cuda.h"
#include "backend/eigh.h"
#include "backend/leading.h"
#include "backend/needs_gpu.h"
#include "backend/products.h"
#include "backend/square_root.h"
#include "backend/tridiagonal.h"

#include <cmath>

namespace kedge {
namespace {

using test::random_matrix;

class DenseOnTheGpu : public test::NeedsGpu {};

/// A covariance of so many rows, the first columns of which vary more and more.
Matrix64 covariance_of(std::size_t dim, std::size_t rows, double strong) {
  const Matrix random = random_matrix(rows, dim, 7);
  EigenRows<double> x = as_eigen(random.view()).cast<double>();
  for (Eigen::Index c = 0; c < x.cols(); ++c) x.col(c) *= 1 + strong / (1.0 + static_cast<double>(c));
  Matrix64 result(dim, dim);
  set_product(result.view(), x.transpose(), x, 1 / static_cast<double>(rows));
  return result;
}

/// How far the spaces that the vectors span are apart, and the values, relative to the largest.
void expect_pairs(const Eigenpairs& found, const Eigenpairs& wanted) {
  ASSERT_EQ(found.values.size(), wanted.values.size());
  const auto count = static_cast<Eigen::Index>(found.values.size());
  for (std::size_t i = 0; i < found.values.size(); ++i) {
    EXPECT_NEAR(found.values[i], wanted.values[i], 1e-12 * wanted.values.back());
  }
  const EigenRows<double> own = product(found.vectors.view(), as_eigen(found.vectors.view()).transpose());
  EXPECT_TRUE(own.isApprox(EigenRows<double>::Identity(count, count), 1e-12));
  const EigenRows<double> across = product(found.vectors.view(), as_eigen(wanted.vectors.view()).transpose());
  for (Eigen::Index i = 0; i < count; ++i) EXPECT_NEAR(std::abs(across(i, i)), 1, 1e-9) << i;
}

void expect_leading(Dense& dense, std::size_t dim, std::size_t count, double strong) {
  const Matrix64 covariance = covariance_of(dim, 3 * dim, strong);
  const auto found = leading_eigenpairs(dense, covariance, count);
  ASSERT_TRUE(found);
  expect_pairs(*found, eigh_largest(covariance, count));
}

void expect_root(Dense& dense, const Matrix64& symmetric) {
  const auto root = square_root(dense, symmetric);
  ASSERT_TRUE(root);
  EXPECT_TRUE(product(root->view(), root->view()).isApprox(as_eigen(symmetric.view()), 1e-11));
  EXPECT_GT(eigenvalues(*root).front(), 0);
}

Matrix64 diagonal(std::initializer_list<double> values) {
  Matrix64 result(values.size(), values.size());
  std::size_t i = 0;
  for (const double value : values) result.row(i)[i] = value, ++i;
  return result;
}

TEST(Leading, EigenpairsAreThoseOfADecomposition) {
  const auto dense = make_cpu_dense();
  expect_leading(*dense, 300, 40, 0);
  expect_leading(*dense, 300, 20, 30);
  expect_leading(*dense, 200, 3, 1000);
}

TEST(Leading, GivesUpWhereNothingLeads) {
  const auto dense = make_cpu_dense();
  Matrix64 flat(300, 300);
  as_eigen(flat.view()).setIdentity();
  EXPECT_FALSE(leading_eigenpairs(*dense, flat, 40));
  EXPECT_FALSE(leading_eigenpairs(*dense, Matrix64(300, 300), 40));
  flat.row(3)[3] = std::nan("");
  EXPECT_FALSE(leading_eigenpairs(*dense, flat, 40));
}

TEST(SquareRoot, TimesItselfIsTheMatrix) {
  const auto dense = make_cpu_dense();
  expect_root(*dense, covariance_of(60, 200, 20));
  expect_root(*dense, diagonal({1e-3, 5, 2e4}));
  expect_root(*dense, diagonal({1e-42, 1e-40, 3e-40}));
}

TEST(SquareRoot, GivesUpWhereThereIsNone) {
  const auto dense = make_cpu_dense();
  EXPECT_FALSE(square_root(*dense, diagonal({0, 1})));
  EXPECT_FALSE(square_root(*dense, diagonal({-1, 1})));
  EXPECT_FALSE(square_root(*dense, diagonal({0, 0})));
  EXPECT_FALSE(square_root(*dense, diagonal({std::nan(""), 1})));
}

TEST_F(DenseOnTheGpu, ProductsAloneFindEigenvectorsAndRoots) {
  const auto dense = cuda::make_dense();
  expect_leading(*dense, 1100, 200, 0);
  expect_leading(*dense, 300, 20, 30);
  expect_root(*dense, covariance_of(300, 900, 20));
  EXPECT_FALSE(square_root(*dense, diagonal({0, 1})));
}

TEST_F(DenseOnTheGpu, TridiagonalMatricesAgree) {
  const Matrix64 covariance = covariance_of(300, 900, 20);
  const Matrix given = random_matrix(300, 5, 8);
  Matrix64 solved[2];
  for (const Device device : {Device::cpu, Device::cuda}) {
    const Tridiagonal tridiagonal(covariance, device);
    Matrix64& x = (solved[device == Device::cuda ? 1 : 0] = Matrix64(300, 5));
    as_eigen(x.view()) = as_eigen(given.view()).cast<double>();
    tridiagonal.to_inside(x.view());
    tridiagonal.solve(0.1, x.view(), x.view());
    tridiagonal.to_outside(x.view());
  }
  EXPECT_TRUE(as_eigen(solved[0].view()).isApprox(as_eigen(solved[1].view()), 1e-11));
}

}  // namespace
}  // namespace kedge
