// SPDX-License-Identifier: Apache-2.0
#include "head/lbfgs.h"
#include "head/logistic.h"
#include "head/mlp.h"
#include "support.h"

#include <gtest/gtest.h>
#include <kedge/lab/head.h>
#include <kedge/metrics.h>

#include <cmath>
#include <numeric>

namespace kedge {
namespace {

using test::random_matrix;

/// Rows around `classes` centres, labelled 10, 20, ...
struct Clusters {
  Matrix rows;
  std::vector<std::int64_t> labels;

  Clusters(std::size_t count, std::size_t dim, std::size_t classes, unsigned seed, float spread)
      : rows(random_matrix(count, dim, seed)) {
    const Matrix centres = random_matrix(classes, dim, 99);
    for (std::size_t r = 0; r < count; ++r) {
      const std::size_t c = r % classes;
      labels.push_back(static_cast<std::int64_t>(10 * (c + 1)));
      for (std::size_t i = 0; i < dim; ++i) rows.row(r)[i] = centres.row(c)[i] + spread * rows.row(r)[i];
    }
  }
};

double accuracy(const Classifier& head, const Clusters& data) {
  return score_labels(data.labels, head.predict(data.rows.view())).accuracy;
}

/// Central differences of a random weighting of the outputs, in float64.
void expect_gradient_of_mlp(bool norms, bool dropout) {
  Random random(3);
  const MlpShape shape{5, 7, 3, norms};
  Mlp<double> mlp(shape, random);
  for (double& p : mlp.parameters()) p += 0.1 * random.normal();  // off the symmetric start
  const auto draw = [&random](Eigen::Index rows, Eigen::Index cols) {
    EigenRows<double> m(rows, cols);
    for (Eigen::Index i = 0; i < m.size(); ++i) m.data()[i] = random.normal();
    return m;
  };
  const EigenRows<double> x = draw(4, 5);
  const EigenRows<double> weights = draw(4, 3);
  EigenRows<double> keep;
  if (dropout) keep = (draw(4, 7).array() > 0).cast<double>() * 2;

  Mlp<double>::Trace trace;
  Eigen::VectorXd gradient;
  (void)mlp.forward(x, keep, trace);
  mlp.backward(keep, weights, trace, gradient);
  ASSERT_EQ(gradient.size(), mlp.parameters().size());
  for (Eigen::Index i = 0; i < gradient.size(); ++i) {
    constexpr double kStep = 1e-5;
    const double before = mlp.parameters()[i];
    mlp.parameters()[i] = before + kStep;
    const double above = mlp.forward(x, keep, trace).cwiseProduct(weights).sum();
    mlp.parameters()[i] = before - kStep;
    const double below = mlp.forward(x, keep, trace).cwiseProduct(weights).sum();
    mlp.parameters()[i] = before;
    const double expected = (above - below) / (2 * kStep);
    EXPECT_NEAR(gradient[i], expected, 1e-7 * (1 + std::abs(expected))) << "parameter " << i;
  }
}

TEST(Mlp, GradientIsThatOfFiniteDifferences) {
  expect_gradient_of_mlp(true, true);
  expect_gradient_of_mlp(true, false);
  expect_gradient_of_mlp(false, false);
}

TEST(Mlp, NormsMakeItBlindToTheLengthOfARow) {
  Random random(1);
  const Mlp<double> mlp({6, 6, 2, true}, random);
  const EigenRows<double> x = EigenRows<double>::Random(3, 6) * 10;
  EXPECT_NEAR((mlp.apply(x) - mlp.apply(7 * x)).norm(), 0, 1e-4);
}

TEST(LogisticLoss, GradientIsThatOfFiniteDifferences) {
  const Matrix x = random_matrix(30, 4, 5);
  std::vector<std::size_t> classes(30);
  for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = (i * i) % 3;
  const LogisticLoss loss(x.view(), classes, 3, 0.7);
  Eigen::VectorXd p = Eigen::VectorXd::Random(loss.parameters());
  Eigen::VectorXd gradient(p.size());
  Eigen::VectorXd unused(p.size());
  (void)loss.value(p, gradient);
  for (Eigen::Index i = 0; i < p.size(); ++i) {
    constexpr double kStep = 1e-6;
    const double before = p[i];
    p[i] = before + kStep;
    const double above = loss.value(p, unused);
    p[i] = before - kStep;
    const double below = loss.value(p, unused);
    p[i] = before;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-8 * (1 + above));  // the loss is rounded, too
  }
}

TEST(LogisticLoss, IsMinimalWhereTheFitEnds) {
  const Clusters data(300, 6, 3, 4, 1.5F);
  std::vector<std::size_t> classes;
  for (const std::int64_t label : data.labels) classes.push_back(static_cast<std::size_t>(label / 10 - 1));
  const LinearHead head = fit_logistic(data.rows.view(), classes, 3, 1, {});
  // Stationary in the plain form: the mean of (p - y) x plus the penalty's part is 0 for every weight, and of p - y
  // for every bias.
  Matrix64 sums(3, 7);
  for (std::size_t r = 0; r < data.rows.rows(); ++r) {
    std::array<double, 3> p{};
    double total = 0;
    for (std::size_t c = 0; c < 3; ++c) {
      double logit = head.bias[c];
      for (std::size_t i = 0; i < 6; ++i) logit += head.weight.row(c)[i] * data.rows.row(r)[i];
      total += p[c] = std::exp(logit);
    }
    for (std::size_t c = 0; c < 3; ++c) {
      const double difference = p[c] / total - (classes[r] == c ? 1 : 0);
      for (std::size_t i = 0; i < 6; ++i) sums.row(c)[i] += difference * data.rows.row(r)[i];
      sums.row(c)[6] += difference;
    }
  }
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(sums.row(c)[i] + head.weight.row(c)[i], 0, 1e-3);
    EXPECT_NEAR(sums.row(c)[6], 0, 1e-3);
  }
}

TEST(Minimize, FindsTheMinimumOfABadlyScaledBowl) {
  const Eigen::VectorXd scales =
      Eigen::VectorXd::LinSpaced(20, 0, 6).unaryExpr([](double e) { return std::pow(10, e); });
  const Eigen::VectorXd centre = Eigen::VectorXd::LinSpaced(20, -1, 1);
  const SmoothProblem bowl{[&](const Eigen::VectorXd& x, Eigen::VectorXd& gradient) {
                             gradient = scales.cwiseProduct(x - centre);
                             return 0.5 * (x - centre).dot(gradient);
                           },
                           [&](Eigen::VectorXd& v) {  // right but for a factor of up to 20
                             for (Eigen::Index i = 0; i < v.size(); ++i) v[i] /= scales[i] * static_cast<double>(i + 1);
                           }};
  Eigen::VectorXd x = Eigen::VectorXd::Zero(20);
  const Minimum found = minimize(bowl, x, 1e-8, 2000);
  EXPECT_TRUE(found.converged);
  EXPECT_LT(found.steps, 100U);
  EXPECT_NEAR((x - centre).norm(), 0, 1e-6);
}

class EveryHead : public testing::TestWithParam<HeadKind> {};

TEST_P(EveryHead, TellsClustersApartThatItHasNotSeen) {
  const Clusters train(600, 20, 4, 1, 0.8F);
  const Clusters unseen(200, 20, 4, 2, 0.8F);
  HeadOptions options;
  options.kind = GetParam();
  options.epochs = 20;
  const Classifier head = train_classifier(train.rows.view(), train.labels, options);
  EXPECT_EQ(head.classes(), (std::vector<std::int64_t>{10, 20, 30, 40}));
  EXPECT_GT(accuracy(head, unseen), 0.97);
}

TEST_P(EveryHead, IsTheSameForTheSameSeed) {
  const Clusters data(200, 8, 3, 1, 2);
  HeadOptions options;
  options.kind = GetParam();
  options.seed = 7;
  const Matrix a = train_classifier(data.rows.view(), data.labels, options).logits(data.rows.view());
  const Matrix b = train_classifier(data.rows.view(), data.labels, options).logits(data.rows.view());
  EXPECT_TRUE(std::ranges::equal(a.cells(), b.cells()));
}

TEST_P(EveryHead, DecodesWhatFollowsFromTheFeatures) {
  const Matrix x = random_matrix(800, 6, 1);
  const Matrix mix = random_matrix(6, 9, 2);
  Matrix y(800, 9);
  for (std::size_t r = 0; r < 800; ++r) {
    for (std::size_t o = 0; o < 9; ++o) {
      y.row(r)[o] = 100 + static_cast<float>(o);
      for (std::size_t i = 0; i < 6; ++i) y.row(r)[o] += 5 * x.row(r)[i] * mix.row(i)[o];
    }
  }
  HeadOptions options;
  options.kind = GetParam();
  const auto train = x.view().middle_rows(0, 600);
  const HeadFunction decoder = train_decoder(train, y.view().middle_rows(0, 600), options);
  const Matrix decoded = decoder(x.view().middle_rows(600, 200));
  const Regression score = score_targets(y.view().middle_rows(600, 200), decoded.view(), 1);
  EXPECT_LT(score.mse, 0.02 * 25 * 6);  // of the targets' variance
}

/// So few rows that a few passes take only a few dozen steps.
TEST(MlpHead, TrainsUntilItIsAsGoodAsLogisticRegressionHoweverFewTheRows) {
  const Clusters train(700, 16, 10, 1, 1.1F);
  const Clusters unseen(1000, 16, 10, 2, 1.1F);
  const auto reached = [&](HeadKind kind, std::size_t epochs) {
    HeadOptions options;
    options.kind = kind;
    options.epochs = epochs;
    return accuracy(train_classifier(train.rows.view(), train.labels, options), unseen);
  };
  const double linear = reached(HeadKind::linear, 0);
  EXPECT_GT(linear, 0.85);
  EXPECT_GT(reached(HeadKind::mlp, 0), linear - 0.02);
  EXPECT_LT(reached(HeadKind::mlp, 9), linear - 0.05) << "nine epochs are enough here, so this shows nothing";
}

TEST(MlpHead, LearnsFromRowsTooFewToHoldAnyOut) {
  const Clusters train(24, 6, 3, 1, 0.3F);
  const Clusters unseen(300, 6, 3, 2, 0.3F);
  EXPECT_GT(accuracy(train_classifier(train.rows.view(), train.labels), unseen), 0.9);
}

TEST(Decoder, OfRidgeIsThatOfLinear) {
  const Matrix x = random_matrix(60, 4, 1);
  const Matrix y = random_matrix(60, 3, 2);
  const auto decode = [&](HeadKind kind) {
    HeadOptions options;
    options.kind = kind;
    return train_decoder(x.view(), y.view(), options)(x.view());
  };
  EXPECT_TRUE(std::ranges::equal(decode(HeadKind::ridge).cells(), decode(HeadKind::linear).cells()));
}

// More features than rows repeat any targets.
TEST(Decoder, OfRidgeDoesNotTakeNoiseForTargets) {
  const Matrix x = random_matrix(20, 60, 1), y = random_matrix(20, 40, 2), unseen = random_matrix(300, 60, 3);
  HeadOptions options;
  options.kind = HeadKind::ridge;
  const Matrix decoded = train_decoder(x.view(), y.view(), options)(unseen.view());
  double squares = 0;
  for (const float value : decoded.cells()) squares += value * value / static_cast<double>(decoded.cells().size());
  EXPECT_LT(squares, 0.3) << "of targets with a variance of 1, which nothing predicts";
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryHead, testing::Values(HeadKind::mlp, HeadKind::linear),
                         [](const auto& kind) { return std::string(to_string(kind.param)); });

TEST(Classifier, RefusesWhatItCannotLearnFrom) {
  const Matrix x = random_matrix(6, 3, 1);
  const std::vector<std::int64_t> one(6, 4);
  const std::vector<std::int64_t> few{1, 2};
  test::expect_error(
      Code::bad_argument, [&] { (void)train_classifier(x.view(), one); }, "label 4", "two classes");
  test::expect_error(
      Code::bad_argument, [&] { (void)train_classifier(x.view(), few); }, "labels", "2 for 6 rows");
  const std::vector<std::int64_t> good{1, 2, 1, 2, 1, 2};
  const auto refuse = [&](auto change, const char* word) {
    HeadOptions options;
    change(options);
    test::expect_error(
        Code::bad_argument, [&] { (void)train_classifier(x.view(), good, options); }, word);
  };
  refuse([](HeadOptions& o) { o.dropout = 1; }, "dropout");
  refuse([](HeadOptions& o) { o.l2 = 0; }, "l2");
  refuse([](HeadOptions& o) { o.kind = HeadKind::ridge; }, "labels need mlp or linear");
  refuse([](HeadOptions& o) { o.learning_rate = NAN; }, "learning rate");
  refuse([](HeadOptions& o) { o.batch = 0; }, "batch");
  refuse([](HeadOptions& o) { o.weight_decay = -1; }, "weight decay");
  HeadOptions wild;
  wild.learning_rate = 1e30;
  test::expect_error(
      Code::failed, [&] { (void)train_classifier(x.view(), good, wild); }, "not finite");
}

}  // namespace
}  // namespace kedge
