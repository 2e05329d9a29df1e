// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <algorithm>
#include <cmath>

namespace kedge {
namespace {

using test::expect_error;
using test::largest;
using test::random_matrix;
using test::space_of;
using test::TemporaryFolder;

Matrix64 as_double(const Matrix& matrix) {
  Matrix64 copy(matrix.rows(), matrix.cols());
  std::ranges::copy(matrix.cells(), copy.cells().begin());
  return copy;
}

/// The definition of each similarity, one value at a time.
double plain_similarity(Similarity similarity, std::span<const float> x, std::span<const float> a,
                        const Whitening& whitening) {
  double dot = 0, xx = 0, aa = 0, distance = 0, manhattan = 0, wip = 0;
  std::vector<double> white_x(x.size()), white_a(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double xi = x[i], ai = a[i];
    dot += xi * ai;
    xx += xi * xi;
    aa += ai * ai;
    distance += (xi - ai) * (xi - ai);
    manhattan += std::abs(xi - ai);
    for (std::size_t j = 0; j < x.size(); ++j) {
      white_x[j] += (xi - whitening.mean[i]) * whitening.whitener.row(i)[j];
      white_a[j] += (ai - whitening.mean[i]) * whitening.whitener.row(i)[j];
    }
  }
  for (std::size_t j = 0; j < x.size(); ++j) wip += white_x[j] * white_a[j];
  switch (similarity) {
    case Similarity::wip: return wip;
    case Similarity::cosine: return dot / std::sqrt(xx * aa);
    case Similarity::euclidean: return std::sqrt(distance);
    case Similarity::inner: return dot;
    case Similarity::angular: return 1 - std::acos(dot / std::sqrt(xx * aa)) / std::acos(-1.0);
    case Similarity::manhattan: return manhattan;
  }
  return 0;
}

class EverySimilarity : public ::testing::TestWithParam<std::string_view> {};

TEST_P(EverySimilarity, EqualsItsDefinition) {
  const Similarity similarity = parse_similarity(GetParam());
  Matrix x = random_matrix(60, 9, 1);
  for (float& value : x.cells()) value += 4;
  const Matrix anchors = random_matrix(7, 9, 2);
  const Moments moments = compute_moments(space_of("x", x));
  const Matrix rr = make_relative_map("x", similarity, as_double(anchors), moments, {}).apply(x.view());
  const Whitening whitening = make_whitening(moments, {});
  for (std::size_t r = 0; r < x.rows(); ++r) {
    for (std::size_t a = 0; a < anchors.rows(); ++a) {
      const double wanted = plain_similarity(similarity, x.row(r), anchors.row(a), whitening);
      EXPECT_NEAR(rr.row(r)[a], wanted, 5e-6 * largest(rr.cells()));
    }
  }
}

TEST_P(EverySimilarity, ReadsPaddedRowsByStride) {
  const Matrix x = random_matrix(5, 4, 1);
  Matrix padded(5, 7);
  for (std::size_t r = 0; r < 5; ++r) std::ranges::copy(x.row(r), padded.row(r).begin());
  const RelativeMap map = make_relative_map("x", parse_similarity(GetParam()), as_double(random_matrix(3, 4, 2)),
                                            compute_moments(space_of("x", x)), {});
  Matrix out(5, 6);
  map.apply({padded.view().data, 5, 4, 7}, {out.view().data, 5, 3, 6});
  const Matrix wanted = map.apply(x.view());
  for (std::size_t r = 0; r < 5; ++r) {
    for (std::size_t a = 0; a < 3; ++a) EXPECT_NEAR(out.row(r)[a], wanted.row(r)[a], 1e-6 * largest(wanted.cells()));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EverySimilarity, ::testing::ValuesIn(similarity_names()),
                         [](const auto& each) { return std::string(each.param); });

/// Rows whose last value varies `scale` times as much as the others.
Matrix uneven_rows(float scale) {
  Matrix x = random_matrix(80, 9, 1);
  for (std::size_t r = 0; r < x.rows(); ++r) x.row(r)[8] *= scale;
  return x;
}

class EveryCondition : public ::testing::TestWithParam<float> {};

TEST_P(EveryCondition, TheMapIsWhatTheWhitenerMakesIt) {
  const Moments moments = compute_moments(space_of("x", uneven_rows(GetParam())));
  const Matrix64 anchors = as_double(random_matrix(7, 9, 2));
  const Matrix weight = make_relative_map("x", Similarity::wip, anchors, moments, {0, 0}).weight();
  const Whitening whitening = make_whitening(moments, {0, 0});
  for (std::size_t a = 0; a < anchors.rows(); ++a) {
    std::vector<double> wanted(9);
    for (std::size_t k = 0; k < 9; ++k) {
      double white = 0;
      for (std::size_t i = 0; i < 9; ++i) {
        white += (anchors.row(a)[i] - moments.mean()[i]) * whitening.whitener.row(i)[k];
      }
      for (std::size_t j = 0; j < 9; ++j) wanted[j] += white * whitening.whitener.row(k)[j];
    }
    const double size = *std::ranges::max_element(wanted, {}, [](double value) { return std::abs(value); });
    for (std::size_t j = 0; j < 9; ++j) EXPECT_NEAR(weight.row(a)[j], wanted[j], 1e-6 * std::abs(size));
  }
}

// From one that is solved with comfortably to one that needs a look at its eigenvalues.
INSTANTIATE_TEST_SUITE_P(Scales, EveryCondition, ::testing::Values(1.0F, 1e-2F, 1e-4F, 1e-6F));

TEST(RelativeMap, RefusesASingularCovarianceAndBadOptions) {
  const Moments moments = compute_moments(space_of("x", uneven_rows(0)));
  const Matrix64 anchors = as_double(random_matrix(7, 9, 2));
  expect_error(
      Code::bad_argument,
      [&] {
        (void)make_relative_map("x", Similarity::wip, anchors, moments, {0, 0});
      },
      "singular", "raise the shrinkage");
  expect_error(
      Code::bad_argument,
      [&] {
        (void)make_relative_map("x", Similarity::wip, anchors, moments, {-0.1, 0});
      },
      "shrinkage is -0.1");
  EXPECT_NO_THROW((void)make_relative_map("x", Similarity::wip, anchors, moments, {}));
}

TEST(RelativeMap, DistanceOfAPointToItselfIsZero) {
  Matrix x = random_matrix(50, 6, 3);
  for (float& value : x.cells()) value = 1000 + 0.01F * value;  // so that |x|^2 + |a|^2 - 2 x.a keeps no digit
  for (const Similarity distance : {Similarity::euclidean, Similarity::manhattan}) {
    const RelativeMap map = make_relative_map("x", distance, as_double(x), compute_moments(space_of("x", x)), {});
    const Matrix rr = map.apply(x.view());
    for (std::size_t r = 0; r < 50; ++r) EXPECT_LT(rr.row(r)[r], 1e-4);
  }
}

/// Two unit rows `angle` apart, by their plane.
std::pair<Matrix, Matrix64> at_angle(double angle) {
  Matrix x(1, 2);
  x.row(0)[0] = static_cast<float>(3 * std::cos(angle));
  x.row(0)[1] = static_cast<float>(3 * std::sin(angle));
  Matrix64 anchor(1, 2);
  anchor.row(0)[0] = 5;
  return {x, anchor};
}

TEST(RelativeMap, AnglesKeepTheirDigitsWhereCosinesHaveNone) {
  const double pi = std::acos(-1.0);
  for (const double small : {0.0, 1e-7, 1e-5, 1e-4, 1e-2, 0.5}) {
    for (const bool opposite : {false, true}) {
      const auto [x, anchor] = at_angle(opposite ? pi - small : small);
      const Moments moments = compute_moments(space_of("x", random_matrix(9, 2, 1)));
      const RelativeMap map = make_relative_map("x", Similarity::angular, anchor, moments, {});
      const double wanted = opposite ? small / pi : 1 - small / pi;
      std::vector<float> alone(1);
      map.apply(x.row(0), alone);
      EXPECT_NEAR(map.apply(x.view()).row(0)[0], wanted, 1e-6) << small;
      EXPECT_NEAR(alone[0], wanted, 1e-6) << small;
    }
  }
}

TEST(RelativeMap, AZeroRowIsAtRightAnglesToEverything) {
  const Matrix zero(1, 4);
  const RelativeMap map = make_relative_map("x", Similarity::angular, as_double(random_matrix(2, 4, 2)),
                                            compute_moments(space_of("x", random_matrix(9, 4, 1))), {});
  EXPECT_THAT(map.apply(zero.view()).row(0), ::testing::Each(0.5F));
}

TEST(RelativeMap, CosineOfAZeroRowIsZero) {
  Matrix x = random_matrix(3, 4, 1);
  std::ranges::fill(x.row(1), 0.0F);
  const RelativeMap map = make_relative_map("x", Similarity::cosine, as_double(random_matrix(2, 4, 2)),
                                            compute_moments(space_of("x", x)), {});
  EXPECT_THAT(map.apply(x.view()).row(1), ::testing::Each(0.0F));
}

TEST(RelativeMap, RefusesShapesThatDoNotFit) {
  expect_error(
      Code::bad_argument,
      [] { RelativeMap("x", Similarity::wip, Matrix(3, 4), std::vector<float>(2), std::vector<float>(4)); },
      "weight is 3 x 4", "bias has 2");
  const RelativeMap map("vit", Similarity::wip, Matrix(3, 4), std::vector<float>(3), std::vector<float>(4));
  const Matrix wrong(5, 6);
  expect_error(
      Code::bad_argument, [&] { (void)map.apply(wrong.view()); }, "'vit' expects embeddings of 4 values, got 6",
      "another encoder");
  const Matrix x(5, 4);
  Matrix out(4, 3);
  expect_error(
      Code::bad_argument, [&] { map.apply(x.view(), out.view()); }, "5 x 3", "4 x 3");
}

TEST(RelativeMap, WritesNothingOverRowsItStillReads) {
  Matrix memory = random_matrix(6, 8, 1);
  const Matrix given = memory;
  const RelativeMap map("x", Similarity::wip, random_matrix(4, 4, 2), std::vector<float>(4), std::vector<float>(4));
  const MatrixView<float> left = memory.view().middle_cols(0, 4), right = memory.view().middle_cols(4, 4);
  for (const MatrixView<float>& shared : {left, memory.view().middle_cols(1, 4), memory.view().middle_cols(3, 4)}) {
    expect_error(
        Code::bad_argument, [&] { map.apply(left, shared); }, "row 0 of the input shares memory", "of its own");
    expect_error(
        Code::bad_argument, [&] { map.apply(std::span<const float>(left.row(2)), shared.row(2)); }, "shares memory");
  }
  expect_error(
      Code::bad_argument, [&] { map.apply(left.middle_rows(0, 3), left.middle_rows(2, 3)); }, "row 2 of the input",
      "row 0 of the output");
  EXPECT_TRUE(std::ranges::equal(memory.cells(), given.cells()));
  const Matrix wanted = map.apply(left);
  map.apply(left, right);  // side by side in the same rows
  for (std::size_t r = 0; r < 6; ++r) EXPECT_THAT(right.row(r), ::testing::ElementsAreArray(wanted.row(r)));
}

TEST(Transform, StreamsManyBlocksAndAnOddTail) {
  const TemporaryFolder folder;
  const Matrix x = random_matrix(2 * 65536 + 77, 3, 5);
  const RelativeMap map =
      make_relative_map("x", Similarity::wip, as_double(random_matrix(4, 3, 2)), compute_moments(space_of("x", x)), {});
  std::size_t last = 0;
  transform(map, space_of("x", x), folder.file("rr.npy"), {}, [&](const ProgressReport& report) {
    EXPECT_GT(report.done, last);
    EXPECT_EQ(report.total, x.rows());
    last = report.done;
  });
  EXPECT_EQ(last, x.rows());
  const Matrix found = Space("rr", open_rows(folder.file("rr.npy"))).read_all();
  const Matrix wanted = map.apply(x.view());
  const double rounding = 1e-6 * largest(wanted.cells());
  for (std::size_t i = 0; i < wanted.cells().size(); ++i) ASSERT_NEAR(found.cells()[i], wanted.cells()[i], rounding);
}

TEST(Transform, LeavesNothingWhereItFails) {
  const TemporaryFolder folder;
  Matrix x = random_matrix(5000, 4, 5);
  const RelativeMap map("vit", Similarity::wip, Matrix(3, 4), std::vector<float>(3), std::vector<float>(4));
  const RelativeMap narrow("vit", Similarity::wip, Matrix(3, 2), std::vector<float>(3), std::vector<float>(2));
  expect_error(
      Code::bad_file, [&] { transform(narrow, space_of("x", x), folder.file("rr.npy")); },
      "expects embeddings of 2 values");
  x.row(4321)[0] = std::nanf("");
  expect_error(
      Code::bad_file, [&] { transform(map, space_of("x", x), folder.file("rr.npy")); }, "row 4321");
  EXPECT_THAT(folder.files(), ::testing::IsEmpty());
  expect_error(
      Code::bad_argument, [&] { transform(map, space_of("x", x), folder.file("rr.bin")); }, "rr.bin.npy");
}

}  // namespace
}  // namespace kedge
