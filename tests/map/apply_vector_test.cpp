// SPDX-License-Identifier: Apache-2.0
#include "compute/kernel_cases.h"
#include "support.h"

#include <cstdlib>
#include <limits>
#include <string>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KEDGE_COUNTS_ALLOCATIONS
namespace {
thread_local std::size_t allocations = 0;
}

// Eigen calls malloc itself, so counting operator new would not do.
extern "C" {
void* __libc_malloc(std::size_t size);  // NOLINT(bugprone-reserved-identifier): glibc's own name
void* malloc(std::size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
}
#endif

namespace kedge {
namespace {

class ApplyVector : public ::testing::TestWithParam<Similarity> {
 protected:
  static RelativeMap map_of(std::size_t anchors, std::size_t dim) {
    Matrix weight = test::random_matrix(anchors, dim, 1);
    if (GetParam() == Similarity::angular) normalize_rows(weight.view());
    std::vector<float> bias(anchors);
    if (GetParam() == Similarity::euclidean) {
      for (std::size_t a = 0; a < anchors; ++a) {
        for (const float value : weight.row(a)) bias[a] += value * value;
      }
    } else if (GetParam() != Similarity::cosine && GetParam() != Similarity::angular) {
      bias = std::vector<float>(anchors, 0.5F);
    }
    const Matrix mean = test::random_matrix(1, dim, 2);
    return {"x", GetParam(), weight, bias, {mean.cells().begin(), mean.cells().end()}};
  }
  static std::vector<float> alone(const RelativeMap& map, std::span<const float> x) {
    std::vector<float> rr(map.output_dim(), std::numeric_limits<float>::quiet_NaN());
    map.apply(x, rr);
    return rr;
  }
};

TEST_P(ApplyVector, GivesWhatABlockGives) {
  for (const std::size_t dim : {1U, 7U, 768U, 1024U, 2500U}) {
    for (const std::size_t anchors : {1U, 4U, 30U}) {
      const RelativeMap map = map_of(anchors, dim);
      const Matrix x = test::random_matrix(3, dim, 3);
      const Matrix rr = map.apply(x.view());
      // Sums of so many values in another order, which a build without vector instructions adds up one by one.
      const auto tolerance = static_cast<float>(1e-5 * test::largest(rr.cells()));
      for (std::size_t r = 0; r < x.rows(); ++r) {
        EXPECT_THAT(alone(map, x.row(r)), ::testing::Pointwise(::testing::FloatNear(tolerance), rr.row(r)));
      }
    }
  }
}

TEST_P(ApplyVector, IsAsExactAsABlockAtTheEdges) {
  const RelativeMap map = map_of(5, 9);
  Matrix x(3, 9);  // zeros; an anchor, whose distance is a small difference of large numbers; one far from float32's 1
  for (std::size_t i = 0; i < 9; ++i) {
    x.row(1)[i] = map.mean()[i] + map.weight().row(2)[i];
    x.row(2)[i] = GetParam() == Similarity::cosine || GetParam() == Similarity::angular
                      ? 1e30F * static_cast<float>(i + 1)
                      : static_cast<float>(i);
  }
  const Matrix rr = map.apply(x.view());
  for (std::size_t r = 0; r < x.rows(); ++r) {
    const auto tolerance = static_cast<float>(1e-5 * test::largest(rr.cells()));
    EXPECT_THAT(alone(map, x.row(r)), ::testing::Pointwise(::testing::FloatNear(tolerance), rr.row(r)));
  }
}

TEST_P(ApplyVector, RefusesWrongSizesInTheSameWords) {
  const RelativeMap map = map_of(3, 4);
  std::vector<float> short_x(3), x(4), rr(3), long_rr(4);
  test::expect_error(
      Code::bad_argument, [&] { map.apply(short_x, rr); }, "'x' expects embeddings of 4 values, got 3");
  test::expect_error(
      Code::bad_argument, [&] { map.apply(x, long_rr); }, "'x' makes 1 x 3 values here, but the output is 1 x 4");
}

TEST_P(ApplyVector, AllocatesNothing) {
#ifdef KEDGE_COUNTS_ALLOCATIONS
  const RelativeMap map = map_of(30, 2500);
  const Matrix x = test::random_matrix(1, 2500, 3);
  std::vector<float> rr(30);
  std::size_t before = allocations;
  (void)map.apply(x.view());
  ASSERT_GT(allocations, before) << "allocations are not counted";
  before = allocations;
  map.apply(x.row(0), rr);
  EXPECT_EQ(allocations, before);
#else
  GTEST_SKIP() << "sanitizers have an allocator of their own";
#endif
}

TEST(ApplyVectorToAKernel, AllocatesNothing) {
#ifdef KEDGE_COUNTS_ALLOCATIONS
  for (const auto& c : {test::KernelCase(4096, 3, 20, 2, false), test::KernelCase(300, 3, 700, 2, true)}) {
    const Matrix x = c.embeddings(1);
    std::vector<float> y(3);
    const KernelFunction function = c.function();
    const std::size_t before = allocations;
    apply_kernel(function, x.row(0), y);
    EXPECT_EQ(allocations, before);
  }
#else
  GTEST_SKIP() << "sanitizers have an allocator of their own";
#endif
}

INSTANTIATE_TEST_SUITE_P(All, ApplyVector,
                         ::testing::Values(Similarity::wip, Similarity::cosine, Similarity::euclidean,
                                           Similarity::inner, Similarity::angular, Similarity::manhattan),
                         [](const auto& similarity) { return std::string(to_string(similarity.param)); });

}  // namespace
}  // namespace kedge
