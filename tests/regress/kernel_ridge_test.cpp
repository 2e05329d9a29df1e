// SPDX-License-Identifier: Apache-2.0
#include "regress/kernel_problem.h"

#include <limits>

namespace kedge {
namespace {

using test::all_finite;
using test::as_rows;
using test::by_hand;
using test::expect_error;
using test::expect_near;
using test::features;
using test::left_out;
using test::Plain;
using test::Problem;
using test::random_matrix;
using test::Rows;
using test::space_of;
using test::values_at;

TEST(KernelRidge, ComparesRowsThatAreCentredWhitenedAndOfLengthOne) {
  const Problem p(40, 5, 2);
  for (const double whitening : {0.0, 0.25, 0.5, 1.0}) {
    const KernelRegression found = p.regress(by_hand(2, 1e-2, whitening));
    expect_near(as_rows(found.kernel.rows), features(p, whitening), 1e-6);
    EXPECT_EQ(found.kernel.whitener.rows(), whitening == 0 ? 0U : 5U);
  }
}

TEST(KernelRidge, IsTheRegressionOfItsDefinition) {
  const Problem p(60, 5, 3), others(20, 5, 3, 50);
  const Rows x = features({others.stored, others.targets}, 0);  // any rows of length 1
  for (const double width : {0.125, 1.0, 8.0, 64.0}) {
    for (const double strength : {1e-6, 1e-3, 1.0}) {
      const KernelRegression found = p.regress(by_hand(width, strength, 0.5));
      const Plain wanted(as_rows(found.kernel.rows), p.targets, width, strength * 60);
      // Coefficients are float32; small strengths make them large, and they cancel in the sum.
      const double cancel =
          wanted.coefficients.cwiseAbs().colwise().sum().maxCoeff() * std::expm1(width) / std::exp(width);
      EXPECT_LT((values_at(found, x) - wanted.at(x)).cwiseAbs().maxCoeff(), 1e-6 * (cancel + 1))
          << width << " " << strength;
    }
  }
}

TEST(KernelRidge, UsesWhatIsGivenAndChoosesOnlyTheRest) {
  const Problem p(80, 4, 2);
  const KernelFit all = p.regress(by_hand(3.3, 0.0123, 0.77)).fit;
  EXPECT_EQ(all.width, 3.3);
  EXPECT_EQ(all.strength, 0.0123);
  EXPECT_EQ(all.whitening, 0.77);
  EXPECT_EQ(p.regress({3.3, {}, {}}).fit.width, 3.3);
  EXPECT_EQ(p.regress({{}, 0.0123, {}}).fit.strength, 0.0123);
  EXPECT_EQ(p.regress({{}, {}, 0.77}).fit.whitening, 0.77);
  EXPECT_EQ(p.regress(by_hand(3.3, 0.0123, 0.77)).kernel.width, 3.3);
}

TEST(KernelRidge, ItsErrorIsThatOfLeavingRowsOutAndSolvingAgain) {
  const Problem p(25, 4, 3);
  for (const double width : {0.5, 4.0}) {
    for (const double strength : {1e-3, 0.1}) {
      const KernelRegression found = p.regress(by_hand(width, strength, 0.25));
      const Rows errors = left_out(as_rows(found.kernel.rows), p.targets, width, strength * 25);
      const Rows around = p.targets.rowwise() - p.targets.colwise().mean();
      EXPECT_NEAR(found.fit.error, errors.squaredNorm() / around.squaredNorm(), 1e-7 * found.fit.error);
      double mean = 0;
      for (Eigen::Index c = 0; c < 3; ++c) {
        const double r2 = std::max(-1.0, 1 - errors.col(c).squaredNorm() / around.col(c).squaredNorm());
        EXPECT_NEAR(found.fit.r2[static_cast<std::size_t>(c)], r2, 1e-5);
        mean += r2 / 3;
      }
      EXPECT_NEAR(found.fit.mean_r2, mean, 1e-6);
    }
  }
}

TEST(KernelRidge, FindsAChoiceNextToTheBestOfTheWholeGrid) {
  for (const unsigned seed : {1U, 20U, 300U}) {
    const Problem p(150, 5, 3, seed, seed == 20U ? 1.0 : 0.05);
    double best = std::numeric_limits<double>::infinity();
    for (const double whitening : {0.0, 0.5, 1.0}) {
      double least = std::numeric_limits<double>::infinity();
      for (int doubled = -3; doubled <= 5; ++doubled) {
        for (int power = -8; power <= 0; ++power) {
          const double width = std::ldexp(1.0, doubled);
          least = std::min(least, p.regress(by_hand(width, std::pow(10, power), whitening)).fit.error);
        }
      }
      EXPECT_LE(p.regress({{}, {}, whitening}).fit.error, 1.025 * least) << seed << ", " << whitening;
      best = std::min(best, least);
    }
    EXPECT_LE(p.regress().fit.error, 1.05 * best) << seed;  // another whitening has to be clearly better
  }
}

/// Stretches the directions that vary together in what is `found` half of the way to their variance in `wanted`.
Rows restored(const Rows& values, const Rows& found, const Rows& wanted) {
  const auto around_mean = [](const Rows& rows) { return Rows(rows.rowwise() - rows.colwise().mean()); };
  const Rows left = around_mean(found), all = around_mean(wanted);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver{Eigen::MatrixXd(left.transpose() * left)};
  Rows result = Rows::Zero(values.rows(), values.cols());
  for (Eigen::Index i = 0; i < values.cols(); ++i) {
    const Eigen::VectorXd direction = solver.eigenvectors().col(i);
    const double kept = (left * direction).squaredNorm() / (all * direction).squaredNorm();
    result += (values * direction) * direction.transpose() / std::sqrt(std::sqrt(std::clamp(kept, 0.05, 1.0)));
  }
  return result;
}

TEST(KernelRidge, ATranslationGetsBackTheVarianceThatRegressionTakes) {
  const Problem p(60, 5, 3), others(20, 5, 3, 50);
  KernelTask task = p.task();
  task.translates = true;
  const double width = 2, strength = 1e-2;
  const KernelOptions options = by_hand(width, strength, 0.25);
  const KernelRegression plain = p.regress(options), found = regress_kernel(task, options);
  EXPECT_EQ(found.fit.r2, plain.fit.r2) << "which is the share of the variance that can be foretold at all";
  const Rows x = features({others.stored, others.targets}, 0);
  const Eigen::RowVectorXd mean = p.targets.colwise().mean();
  const Rows left = p.targets - left_out(as_rows(plain.kernel.rows), p.targets, width, strength * 60);
  const Rows wanted = restored(values_at(plain, x).rowwise() - mean, left, p.targets);
  expect_near(values_at(found, x).rowwise() - mean, wanted, 1e-4);
}

TEST(KernelRidge, ItsValuesMayBeWantedInOtherCoordinates) {
  const Problem p(60, 5, 3), others(20, 5, 3, 50);
  Matrix targets(60, 3);
  as_eigen(targets.view()) = p.targets.cast<float>();
  const Whitening onto = make_whitening(compute_moments(space_of("y", targets)), {});
  KernelTask task = p.task();
  task.translates = true;
  const KernelOptions options = by_hand(2, 1e-2, 0.25);
  Rows wanted = values_at(regress_kernel(task, options), features({others.stored, others.targets}, 0));
  whiten(onto, kedge::view_of(wanted));
  task.onto = &onto;
  expect_near(values_at(regress_kernel(task, options), features({others.stored, others.targets}, 0)), wanted, 1e-4);
}

TEST(KernelRidge, TellsSmoothTargetsFromNoise) {
  const Problem smooth(300, 4, 2, 1, 0.0), noise(300, 4, 2, 1, 100.0);
  EXPECT_GT(smooth.regress().fit.mean_r2, 0.8);
  EXPECT_GT(noise.regress().fit.mean_r2, -0.2);  // it then says next to nothing
  EXPECT_LT(noise.regress().fit.mean_r2, 0.1);
}

TEST(KernelRidge, FewRowsAndRowsAtTheMeanStayFinite) {
  for (const std::size_t count : {1U, 2U, 3U}) {
    const Problem p(count, 4, 2);
    const KernelRegression chosen = p.regress();
    EXPECT_TRUE(all_finite(chosen)) << count;
    EXPECT_TRUE(all_finite(p.regress(by_hand(64, 1e-9, 1)))) << count;
    if (count == 1) expect_near(values_at(chosen, as_rows(chosen.kernel.rows)), p.targets, 1e-6);
  }
  Matrix rows = random_matrix(21, 3, 4);
  for (std::size_t r = 0; r < 10; ++r) {
    for (std::size_t c = 0; c < 3; ++c) rows.row(r + 10)[c] = -rows.row(r)[c];  // they cancel, so the mean is 0
  }
  std::ranges::fill(rows.row(20), 0.0F);
  const Problem p(rows, as_rows(random_matrix(21, 2, 5)));
  for (const KernelOptions& options : {KernelOptions{}, by_hand(1, 1e-8, 0.5), by_hand(32, 1e-9, 0)}) {
    const KernelRegression found = p.regress(options);
    EXPECT_TRUE(all_finite(found));
    for (const float value : found.kernel.rows.row(20)) EXPECT_EQ(value, 0);
  }
}

TEST(KernelRidge, ConstantTargetsAreMetAndCountForNothing) {
  Problem p(50, 4, 3);
  p.targets.col(1).setConstant(7);
  const KernelRegression found = p.regress();
  EXPECT_TRUE(all_finite(found));
  EXPECT_EQ(found.fit.r2[1], 0);
  EXPECT_NEAR(found.fit.mean_r2, (found.fit.r2[0] + found.fit.r2[2]) / 2, 1e-6);
  const Rows values = values_at(found, as_rows(found.kernel.rows));
  EXPECT_NEAR(values.col(1).maxCoeff(), 7, 1e-6);
  EXPECT_NEAR(values.col(1).minCoeff(), 7, 1e-6);

  p.targets.setConstant(-2);
  const KernelRegression flat = p.regress();
  EXPECT_TRUE(all_finite(flat));
  EXPECT_EQ(flat.fit.error, 0);
  EXPECT_EQ(flat.fit.mean_r2, 0);
  expect_near(values_at(flat, as_rows(flat.kernel.rows)), p.targets, 1e-6);
}

TEST(KernelRidge, OneOutputIsEnough) {
  const Problem p(60, 4, 1);
  const KernelRegression found = p.regress();
  EXPECT_EQ(found.fit.r2.size(), 1U);
  EXPECT_NEAR(found.fit.mean_r2, 1 - found.fit.error, 1e-6);
}

TEST(KernelRidge, OptionsOutOfRangeAreRefused) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Problem p(10, 3, 1);
  for (const double width : {0.0, 9e-4, 64.1, -1.0, kNan, 1e300}) {
    expect_error(
        Code::bad_argument,
        [&] {
          (void)p.regress({width, {}, {}});
        },
        "kernel_width", "from 0.001 to 64");
  }
  for (const double strength : {0.0, 1e-10, 1.1e6, -1.0, kNan}) {
    expect_error(
        Code::bad_argument,
        [&] {
          (void)p.regress({{}, strength, {}});
        },
        "kernel_strength", "from 1e-09 to 1000000");
  }
  for (const double whitening : {-0.1, 1.1, kNan}) {
    expect_error(
        Code::bad_argument,
        [&] {
          (void)p.regress({{}, {}, whitening});
        },
        "kernel_whitening", "from 0 to 1");
  }
}

TEST(KernelRidge, TheSameTwice) {
  const Problem p(200, 6, 3);
  const KernelRegression one = p.regress(), two = p.regress();
  EXPECT_EQ(one.fit.error, two.fit.error);
  EXPECT_EQ(one.fit.r2, two.fit.r2);
  EXPECT_EQ(one.bias, two.bias);
  EXPECT_TRUE(std::ranges::equal(one.kernel.coefficients.cells(), two.kernel.coefficients.cells()));
  EXPECT_TRUE(std::ranges::equal(one.weight.cells(), two.weight.cells()));
}

TEST(KernelRidge, TellsItsSteps) {
  const Problem p(200, 6, 3);
  KernelTask task = p.task();
  double told = 0;
  int steps = 0;
  task.tell = [&](double work) {
    told += work;
    ++steps;
  };
  (void)regress_kernel(task, {});
  EXPECT_GT(steps, 3);
  EXPECT_GT(told, 0.05 * kernel_work(200, 6, 3));
}

}  // namespace
}  // namespace kedge
