// SPDX-License-Identifier: Apache-2.0
#include "compute/covariance.h"
#include "compute/devices.h"
#include "compute/products.h"
#include "support.h"

#include <Eigen/LU>

#include <algorithm>
#include <cmath>

namespace kedge {
namespace {

using test::random_matrix;

Matrix64 random_rows(std::size_t rows, std::size_t cols, unsigned seed) {
  const Matrix narrow = random_matrix(rows, cols, seed);
  Matrix64 wide(rows, cols);
  std::ranges::copy(narrow.cells(), wide.cells().begin());
  return wide;
}

/// x^T y / rows, by plain loops.
Matrix64 cross_by_loops(const Matrix64& x, const Matrix64& y) {
  Matrix64 result(x.cols(), y.cols());
  for (std::size_t r = 0; r < x.rows(); ++r) {
    for (std::size_t i = 0; i < x.cols(); ++i) {
      for (std::size_t j = 0; j < y.cols(); ++j) result.row(i)[j] += x.row(r)[i] * y.row(r)[j];
    }
  }
  for (double& cell : result.cells()) cell /= static_cast<double>(x.rows());
  return result;
}

void expect_near(std::span<const double> found, std::span<const double> wanted, double rounding) {
  ASSERT_EQ(found.size(), wanted.size());
  double largest = 0;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], rounding * largest) << i;
}

/// At a size where a GPU is used, if there is one.
class CentredRowsTest : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (const auto reason = test::missing(GetParam())) GTEST_SKIP() << *reason;
    rows_ = centre_rows(given_, mean_, GetParam());
    for (std::size_t r = 0; r < centred_.rows(); ++r) {
      for (std::size_t c = 0; c < centred_.cols(); ++c) centred_.row(r)[c] -= mean_[c];
    }
  }

  static constexpr std::size_t kRows = 400, kDim = 260, kOutputs = 3;
  Matrix64 given_ = random_rows(kRows, kDim, 1);
  std::vector<double> mean_ = std::vector<double>(kDim, 0.25);
  Matrix64 centred_ = given_;
  std::unique_ptr<const CentredRows> rows_;
};

TEST_P(CentredRowsTest, MeansSquaresAndProductsAreThoseOfPlainLoops) {
  std::vector<double> means(kDim), squares(kDim);
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t c = 0; c < kDim; ++c) {
      means[c] += centred_.row(r)[c] / kRows;
      squares[c] += centred_.row(r)[c] * centred_.row(r)[c] / kRows;
    }
  }
  expect_near(rows_->means(), means, 1e-12);
  expect_near(rows_->mean_squares(), squares, 1e-12);
  const Matrix64 targets = random_rows(kRows, kOutputs, 2);
  const Matrix64 cross = rows_->cross(targets.view());
  expect_near(cross.cells(), cross_by_loops(centred_, targets).cells(), 1e-12);

  const Matrix64 wider = random_rows(kOutputs, kDim + 5, 3);  // the weights are part of it, as they are in a consensus
  const auto weights = wider.view().middle_cols(2, kDim);
  const Matrix64 found = rows_->times(weights);
  Matrix64 wanted(kRows, kOutputs);
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t o = 0; o < kOutputs; ++o) {
      for (std::size_t c = 0; c < kDim; ++c) wanted.row(r)[o] += centred_.row(r)[c] * weights.row(o)[c];
    }
  }
  expect_near(found.cells(), wanted.cells(), 1e-12);
}

/// (B G B^T + k I)^-1 B x is what comes out inside, and B^T of that outside, for any B.
TEST_P(CentredRowsTest, SolutionsSolveWhatTheyAreAskedFor) {
  const Matrix64 gram = cross_by_loops(centred_, centred_);
  Matrix64 shrunk = gram;
  for (std::size_t i = 0; i < kDim; ++i) shrunk.row(i)[i] += 0.5;
  const std::shared_ptr<const ChangeOfBasis> whiteners[] = {nullptr, std::make_shared<ChangeOfBasis>(Cholesky(shrunk)),
                                                            std::make_shared<ChangeOfBasis>(shrunk)};
  constexpr double kPenalty = 0.3;
  for (const auto& whitener : whiteners) {
    const Matrix64 cross = random_rows(kDim, kOutputs, 4);
    const auto decomposed = rows_->decompose(whitener);
    const std::vector<double> values = decomposed->eigenvalues();
    EXPECT_TRUE(std::ranges::is_sorted(values));
    Matrix64 solution = cross;
    decomposed->to_inside(solution.view());
    decomposed->solve(kPenalty, solution.view(), solution.view());
    decomposed->to_outside(solution.view());
    // With s = B^T t: B (G s - cross) + k t = 0.
    Matrix64 residual(kDim, kOutputs);
    set_product(residual.view(), gram.view(), solution.view());
    as_eigen(residual.view()) -= as_eigen(cross.view());
    Matrix64 inner = solution;
    if (whitener) {
      whitener->apply_to_columns(residual.view());
      EigenRows<double> turned = EigenRows<double>::Identity(kDim, kDim);  // B^T, to be taken off the solution
      whitener->adjoint_to_columns({turned.data(), kDim, kDim, kDim});
      as_eigen(inner.view()) = turned.fullPivLu().solve(as_eigen(solution.view()));
    }
    as_eigen(residual.view()) += kPenalty * as_eigen(inner.view());
    EXPECT_LT(as_eigen(residual.view()).norm(), 1e-8 * as_eigen(cross.view()).norm());
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDevice, CentredRowsTest, ::testing::Values(Device::cpu, Device::cuda),
                         [](const auto& place) { return std::string(to_string(place.param)); });

class BlockCovarianceTest : public ::testing::TestWithParam<Device> {};

TEST_P(BlockCovarianceTest, DirectionsAreEigenvectorsInTheCoordinatesOfTheBlocks) {
  if (const auto reason = test::missing(GetParam())) GTEST_SKIP() << *reason;
  const std::vector<std::size_t> dims{90, 170};
  const Matrix64 rows = random_rows(600, 260, 5);
  Matrix64 scatter = cross_by_loops(rows, rows);
  std::vector<std::shared_ptr<const ChangeOfBasis>> whiteners;
  EigenRows<double> all = EigenRows<double>::Zero(260, 260);  // both whiteners, block by block
  std::size_t first = 0;
  for (const std::size_t dim : dims) {
    Matrix64 own(dim, dim);
    as_eigen(own.view()) = as_eigen(scatter.view().middle_rows(first, dim).middle_cols(first, dim));
    as_eigen(own.view()).diagonal().array() += 0.1;
    whiteners.push_back(first == 0 ? std::make_shared<ChangeOfBasis>(Cholesky(own))
                                   : std::make_shared<ChangeOfBasis>(own));
    const auto at = static_cast<Eigen::Index>(first), size = static_cast<Eigen::Index>(dim);
    EigenRows<double> b = EigenRows<double>::Identity(size, size);
    whiteners.back()->apply_to_columns({b.data(), dim, dim, dim});
    all.block(at, at, size, size) = b;
    first += dim;
  }
  const EigenRows<double> whitened = 2 * product(product(all, scatter.view()), all.transpose());
  as_eigen(scatter.view()).triangularView<Eigen::StrictlyUpper>().setConstant(99);  // which nobody reads
  const auto covariance = make_block_covariance(scatter, 0.5, whiteners, dims, GetParam());
  for (const std::size_t count : {5U, 260U}) {
    const Directions found = covariance->leading(count);
    ASSERT_EQ(found.pairs.values.size(), count);
    EXPECT_TRUE(std::ranges::is_sorted(found.pairs.values));
    for (std::size_t i = 0; i < count; ++i) {
      const Eigen::RowVectorXd v = as_eigen(found.pairs.vectors.row(i));
      const Eigen::RowVectorXd turned = product(v, whitened);
      EXPECT_LT((turned - found.pairs.values[i] * v).norm(), 1e-9 * whitened.norm());
      const double own =
          v.head(90).dot(product(v.head(90).eval(), whitened.topLeftCorner(90, 90).eval()).row(0)) +
          v.tail(170).dot(product(v.tail(170).eval(), whitened.bottomRightCorner(170, 170).eval()).row(0));
      EXPECT_NEAR(found.own_variances[i], own, 1e-9 * whitened.norm());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDevice, BlockCovarianceTest, ::testing::Values(Device::cpu, Device::cuda),
                         [](const auto& place) { return std::string(to_string(place.param)); });

TEST(MirrorLower, CopiesWhatIsBelowTheDiagonal) {
  for (const std::size_t dim : {1U, 31U, 32U, 33U, 100U}) {
    Matrix64 square = random_rows(dim, dim + 3, 6);
    const Matrix64 before = square;
    mirror_lower(square.view().middle_cols(0, dim));
    for (std::size_t r = 0; r < dim; ++r) {
      for (std::size_t c = 0; c < dim; ++c) EXPECT_EQ(square.row(r)[c], before.row(std::max(r, c))[std::min(r, c)]);
      for (std::size_t c = dim; c < dim + 3; ++c) EXPECT_EQ(square.row(r)[c], before.row(r)[c]);
    }
  }
}

}  // namespace
}  // namespace kedge
