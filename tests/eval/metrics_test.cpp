// SPDX-License-Identifier: Apache-2.0
#include "compute/neighbors.h"
#include "support.h"

#include <algorithm>
#include <cmath>

namespace kedge {
namespace {

using test::expect_error;
using test::random_matrix;

double plain_cosine(std::span<const float> a, std::span<const float> b) {
  double dot = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    dot += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return dot / std::sqrt(aa * bb);
}

Matrix noisy_copy(const Matrix& matrix, float noise) {
  Matrix copy = random_matrix(matrix.rows(), matrix.cols(), 99);
  for (std::size_t i = 0; i < copy.cells().size(); ++i) copy.cells()[i] = matrix.cells()[i] + noise * copy.cells()[i];
  return copy;
}

TEST(Ranks, EqualThePlainLoopAcrossBlocks) {
  const Matrix a = random_matrix(2500, 8, 1);  // more keys than one block
  const Matrix b = noisy_copy(a, 0.7F);
  const std::vector<std::size_t> ranks = retrieval_ranks(a.view(), b.view());
  for (const std::size_t i : {0U, 1U, 255U, 256U, 1000U, 2047U, 2048U, 2499U}) {
    std::size_t larger = 0;
    const double right = plain_cosine(a.row(i), b.row(i));
    for (std::size_t j = 0; j < b.rows(); ++j) larger += plain_cosine(a.row(i), b.row(j)) > right ? 1 : 0;
    EXPECT_EQ(ranks[i], larger + 1) << i;
  }
}

TEST(Ranks, EqualRowsAreNeverLarger) {
  Matrix b = random_matrix(700, 301, 1);
  for (std::size_t r = 1; r < b.rows(); ++r) std::ranges::copy(b.row(0), b.row(r).begin());
  const Matrix a = random_matrix(700, 301, 2);
  EXPECT_THAT(retrieval_ranks(a.view(), b.view()), ::testing::Each(1U));
}

TEST(Ranks, ZeroRowsHaveNoDirection) {
  const Matrix zero(5, 3);
  EXPECT_THAT(retrieval_ranks(zero.view(), zero.view()), ::testing::Each(1U));
}

TEST(Compare, AMatrixAgreesWithItself) {
  const Matrix a = random_matrix(300, 6, 1);
  const Comparison same = compare(a.view(), a.view());
  EXPECT_DOUBLE_EQ(same.mrr, 1);
  EXPECT_NEAR(same.recall[0], 1, 1e-12);
  EXPECT_EQ(same.nmse, 0);
  EXPECT_NEAR(same.paired_cosine, 1, 1e-12);
  EXPECT_NEAR(same.linear_cka, 1, 1e-12);
  EXPECT_NEAR(same.svcca.value(), 1, 1e-9);
  EXPECT_NEAR(same.effective_rank_a, 6, 0.1);
  ASSERT_EQ(same.knn_overlap.has_value(), have_faiss());
  EXPECT_EQ(same.knn_overlap.value_or(1), 1);
}

TEST(NamedScores, SayWhatWasMeasuredAndWhatWasNot) {
  Comparison comparison;
  comparison.mrr = 0.5;
  comparison.recall = {0.25, 0.75};
  CompareOptions options;
  options.recall_at = {2, 7};
  options.neighbors = 3;
  const auto scores = named_scores(comparison, options);
  EXPECT_EQ(scores[0].first, "mrr");
  EXPECT_EQ(scores[0].second, 0.5);
  EXPECT_EQ(scores[2].first, "recall@7");
  EXPECT_EQ(scores[2].second, 0.75);
  EXPECT_EQ(scores.back().first, "knn_overlap@3");
  EXPECT_FALSE(scores.back().second.has_value());
}

TEST(Compare, NeighbourOverlapEqualsThePlainLoop) {
  if (!have_faiss()) GTEST_SKIP() << "this build has no FAISS";
  const Matrix a = random_matrix(80, 5, 1);
  const Matrix b = noisy_copy(a, 0.5F);
  const auto nearest = [](const Matrix& m, std::size_t i) {
    std::vector<std::size_t> others;
    for (std::size_t j = 0; j < m.rows(); ++j) {
      if (j != i) others.push_back(j);
    }
    std::ranges::sort(others, [&](std::size_t x, std::size_t y) {
      return plain_cosine(m.row(i), m.row(x)) > plain_cosine(m.row(i), m.row(y));
    });
    others.resize(7);
    return others;
  };
  double common = 0;
  for (std::size_t i = 0; i < a.rows(); ++i) {
    const auto near_b = nearest(b, i);
    for (const std::size_t j : nearest(a, i)) common += std::ranges::count(near_b, j) > 0 ? 1 : 0;
  }
  CompareOptions options;
  options.neighbors = 7;
  EXPECT_NEAR(*compare(a.view(), b.view(), options).knn_overlap, common / (7 * 80), 1e-12);
  options.neighbors = 80;
  EXPECT_FALSE(compare(a.view(), b.view(), options).knn_overlap.has_value());
}

TEST(Compare, EffectiveRankIgnoresRoundingWhereRowsAreFew) {
  const Matrix a = random_matrix(4, 50, 1);  // three directions after centring
  const Comparison found = compare(a.view(), a.view());
  EXPECT_GT(found.effective_rank_a, 2.5);
  EXPECT_LE(found.effective_rank_a, 3 + 1e-9);
}

TEST(Compare, SvccaDoesNotSeeTurnsAndStretchesButDirectionsWithoutVariance) {
  Matrix a = random_matrix(400, 6, 1), b(400, 6), noisy = a;
  const Matrix noise = random_matrix(400, 6, 3);
  for (std::size_t r = 0; r < a.rows(); ++r) {
    // An invertible map of each other: canonical correlations are those of the same rows.
    for (std::size_t c = 0; c < 6; ++c) b.row(r)[c] = 5 - a.row(r)[(c + 1) % 6] * static_cast<float>(1 + c % 3);
    // One direction that the two do not share, of too little variance to count.
    noisy.row(r)[2] = 1e-3F * noise.row(r)[0];
    a.row(r)[2] = 1e-3F * noise.row(r)[1];
  }
  EXPECT_NEAR(compare(a.view(), noisy.view()).svcca.value(), 1, 1e-6);
  for (std::size_t r = 0; r < a.rows(); ++r) {
    a.row(r)[2] = noise.row(r)[1];
    noisy.row(r)[2] = noise.row(r)[0];
  }
  EXPECT_NEAR(compare(a.view(), noisy.view()).svcca.value(), 5.0 / 6, 0.05);
  const Matrix c = random_matrix(400, 6, 1);
  EXPECT_NEAR(compare(c.view(), b.view()).svcca.value(), 1, 1e-6);
  CompareOptions options;
  options.svcca = false;
  EXPECT_FALSE(compare(c.view(), b.view(), options).svcca.has_value());
}

TEST(Compare, ConstantMatricesGiveNumbers) {
  Matrix a(10, 3);
  for (float& value : a.cells()) value = 2;
  const Comparison found = compare(a.view(), a.view());
  for (const double value :
       {found.mrr, found.nmse, found.linear_cka, found.svcca.value(), found.effective_rank_a, found.paired_cosine}) {
    EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Compare, RefusesShapesThatDiffer) {
  const Matrix a(3, 4);
  const Matrix b(3, 5);
  expect_error(
      Code::bad_argument, [&] { (void)compare(a.view(), b.view()); }, "3 x 4 and 3 x 5");
  const Matrix none(0, 4);
  expect_error(
      Code::bad_argument, [&] { (void)compare(none.view(), none.view()); }, "0 x 4");
}

TEST(Scores, LabelsCountEachClass) {
  const std::int64_t truth[] = {0, 0, 1, 5};
  const std::int64_t predicted[] = {0, 1, 1, 7};
  const Classification score = score_labels(truth, predicted);
  EXPECT_DOUBLE_EQ(score.accuracy, 0.5);
  // F1: class 0 2/3, class 1 2/3, classes 5 and 7 zero.
  EXPECT_DOUBLE_EQ(score.macro_f1, (2.0 / 3 + 2.0 / 3) / 4);
  EXPECT_DOUBLE_EQ(score.weighted_f1, (2.0 / 3 * 2 + 2.0 / 3) / 4);
  expect_error(
      Code::bad_argument, [&] { (void)score_labels(std::span(truth).first(3), predicted); }, "3 true labels but 4");
}

TEST(Scores, PerfectAnswersScoreExactlyOne) {
  for (std::int64_t classes = 2; classes < 40; ++classes) {
    std::vector<std::int64_t> labels;
    for (std::int64_t row = 0; row < 300; ++row) labels.push_back(row * row % classes);
    const Classification score = score_labels(labels, labels);
    EXPECT_EQ(score.weighted_f1, 1) << classes;
    EXPECT_EQ(score.macro_f1, 1) << classes;
  }
}

TEST(Scores, TargetsGiveErrorAndDecibels) {
  Matrix truth(2, 2);
  Matrix predicted(2, 2);
  predicted.row(0)[0] = 0.2F;
  const Regression score = score_targets(truth.view(), predicted.view(), 1);
  EXPECT_NEAR(score.mse, 0.01, 1e-8);
  EXPECT_NEAR(score.psnr, 20, 1e-5);
  EXPECT_TRUE(std::isinf(score_targets(truth.view(), truth.view(), 1).psnr));
}

}  // namespace
}  // namespace kedge
