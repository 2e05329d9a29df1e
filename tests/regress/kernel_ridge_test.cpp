// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"
#include "regress/kernel_ridge.h"
#include "support.h"

#include <Eigen/Eigenvalues>
#include <Eigen/LU>

#include <cmath>
#include <limits>

namespace kedge {
namespace {

using Rows = EigenRows<double>;
using test::expect_error;
using test::random_matrix;
using test::space_of;

Rows as_rows(const Matrix& matrix) {
  return as_eigen(matrix.view()).cast<double>();
}

MatrixView<const double> view_of(const Rows& rows) {
  const auto cols = static_cast<std::size_t>(rows.cols());
  return {rows.data(), static_cast<std::size_t>(rows.rows()), cols, cols};
}

/// Support rows and targets that no line reaches.
struct Problem {
  Problem(std::size_t count, std::size_t dim, std::size_t outputs, unsigned seed = 1, double noise = 0.1)
      : Problem(random_matrix(count, dim, seed), Rows()) {
    const Rows slopes = as_rows(random_matrix(dim, outputs, seed + 1));
    targets = (support * slopes).array().tanh();
    targets += noise * as_rows(random_matrix(count, outputs, seed + 2));
  }
  Problem(Matrix rows, Rows wanted)
      : stored(std::move(rows)),
        support(as_rows(stored)),
        targets(std::move(wanted)),
        coordinates(make_whitening(compute_moments(space_of("x", many(stored))), {})) {}

  /// The statistics of a space are seldom those of its support; one row has none.
  static Matrix many(const Matrix& rows) { return rows.rows() > 1 ? rows : random_matrix(50, rows.cols(), 9); }

  [[nodiscard]] KernelTask task() const { return {view_of(support), coordinates, view_of(targets)}; }
  [[nodiscard]] KernelRegression regress(const KernelOptions& options = {}) const {
    return regress_kernel(task(), options);
  }

  Matrix stored;
  Rows support, targets;
  Whitening coordinates;
};

constexpr KernelOptions by_hand(double width, double strength, double whitening) {
  return {width, strength, whitening};
}

/// f of the rows, from the definition.
Rows features(const Problem& problem, double whitening) {
  const Rows covariance = as_eigen(problem.coordinates.covariance.view());
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver{Eigen::MatrixXd(covariance)};
  const Eigen::VectorXd scale = solver.eigenvalues().array().pow(-whitening / 2);
  const Rows power = solver.eigenvectors() * scale.asDiagonal() * solver.eigenvectors().transpose();
  Rows result = (problem.support.rowwise() - as_eigen(std::span(problem.coordinates.mean))) * power;
  for (Eigen::Index r = 0; r < result.rows(); ++r) {
    if (result.row(r).norm() > 0) result.row(r) /= result.row(r).norm();
  }
  return result;
}

/// k of every row of x with every row of s.
Rows kernel_matrix(const Rows& x, const Rows& s, double width) {
  return (width * ((x * s.transpose()).array() - 1)).exp();
}

/// The regression from its definition, with an explicit inverse: values at x of what is learned from s and y.
struct Plain {
  Plain(const Rows& s, const Rows& y, double width, double ridge) : rows(s), g(width), mean(y.colwise().mean()) {
    solve(y, ridge);
  }
  Plain(const Rows& s, const Rows& y, double width, double ridge, Eigen::RowVectorXd around)
      : rows(s), g(width), mean(std::move(around)) {
    solve(y, ridge);
  }
  void solve(const Rows& y, double ridge) {
    Rows system = kernel_matrix(rows, rows, g);
    system.diagonal().array() += ridge;
    coefficients = system.inverse() * (y.rowwise() - mean);
  }
  [[nodiscard]] Rows at(const Rows& x) const { return (kernel_matrix(x, rows, g) * coefficients).rowwise() + mean; }
  Rows rows;
  double g;
  Eigen::RowVectorXd mean;
  Rows coefficients;
};

/// The regression's own formula at features f.
Rows values_at(const KernelRegression& regression, const Rows& f) {
  const Rows u = regression.kernel.width * f * as_rows(regression.kernel.rows).transpose();
  const Rows curve = u.array().exp() - 1 - u.array();
  Rows result = f * as_eigen(regression.weight.view()).transpose() + curve * as_rows(regression.kernel.coefficients);
  result.rowwise() += as_eigen(std::span(regression.bias));
  return result;
}

void expect_near(const Rows& found, const Rows& wanted, double share) {
  ASSERT_EQ(found.rows(), wanted.rows());
  ASSERT_EQ(found.cols(), wanted.cols());
  EXPECT_LT((found - wanted).cwiseAbs().maxCoeff(), share * (wanted.cwiseAbs().maxCoeff() + 1e-300));
}

/// The errors of really leaving out row after row and solving again.
Rows left_out(const Rows& s, const Rows& y, double width, double ridge) {
  const Eigen::RowVectorXd mean = y.colwise().mean();
  Rows errors(y.rows(), y.cols());
  for (Eigen::Index out = 0; out < y.rows(); ++out) {
    Rows rest(s.rows() - 1, s.cols()), known(y.rows() - 1, y.cols());
    for (Eigen::Index r = 0; r < rest.rows(); ++r) {
      rest.row(r) = s.row(r < out ? r : r + 1);
      known.row(r) = y.row(r < out ? r : r + 1);
    }
    errors.row(out) = y.row(out) - Plain(rest, known, width, ridge, mean).at(s.row(out));
  }
  return errors;
}

bool all_finite(const KernelRegression& r) {
  const auto finite = [](const Matrix& matrix) { return as_eigen(matrix.view()).allFinite(); };
  return finite(r.kernel.whitener) && finite(r.kernel.rows) && finite(r.kernel.coefficients) &&
         as_eigen(r.weight.view()).allFinite() && as_eigen(std::span(r.bias)).allFinite() &&
         std::isfinite(r.fit.error) && std::isfinite(r.fit.mean_r2) && r.fit.error >= 0;
}

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

TEST(KernelRidge, RowsThatRepeatAreOneRowThatWeighsMore) {
  Problem once(30, 4, 2);
  Matrix twice(60, 4);
  Rows wanted(60, 2);
  for (std::size_t r = 0; r < 60; ++r) {
    std::ranges::copy(once.stored.row(r % 30), twice.row(r).begin());
    wanted.row(static_cast<Eigen::Index>(r)) = once.targets.row(static_cast<Eigen::Index>(r % 30));
  }
  const Problem again(twice, wanted);
  for (const double strength : {1e-9, 1e-8, 1e-2}) {
    const KernelRegression one = once.regress(by_hand(2, strength, 0)), two = again.regress(by_hand(2, strength, 0));
    ASSERT_TRUE(all_finite(two)) << strength;
    const Rows f = as_rows(one.kernel.rows);
    // Half the penalty for each of two rows is the same penalty.
    if (strength < 5e-9) continue;
    const double share = strength > 1e-5 ? 1e-5 : 1e-2;
    expect_near(values_at(two, f), values_at(one, f), share);
    EXPECT_NEAR(two.fit.error, one.fit.error, share * one.fit.error) << "a row is left out with the same one";
  }
  const KernelFit chosen = again.regress().fit, alone = once.regress().fit;
  EXPECT_EQ(chosen.width, alone.width);
  EXPECT_EQ(chosen.strength, alone.strength);
  EXPECT_EQ(chosen.whitening, alone.whitening);
  EXPECT_NEAR(chosen.mean_r2, alone.mean_r2, 1e-4);
}

TEST(KernelRidge, ItsErrorIsThatOfLeavingARowOutWithAllThatAreTheSame) {
  const Problem distinct(12, 4, 2);
  std::vector<Eigen::Index> rows;
  for (Eigen::Index r = 0; r < 12; ++r) rows.insert(rows.end(), static_cast<std::size_t>(1 + r % 3), r);
  Matrix repeated(rows.size(), 4);
  Rows wanted(static_cast<Eigen::Index>(rows.size()), 2);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::ranges::copy(distinct.stored.row(static_cast<std::size_t>(rows[r])), repeated.row(r).begin());
    wanted.row(static_cast<Eigen::Index>(r)) = distinct.targets.row(rows[r]);
  }
  const Problem p(std::move(repeated), std::move(wanted));
  const double width = 2, ridge = 1e-2 * static_cast<double>(rows.size());
  const KernelRegression found = p.regress(by_hand(width, 1e-2, 0.25));
  const Rows s = as_rows(found.kernel.rows);
  const Eigen::RowVectorXd mean = p.targets.colwise().mean();
  double error = 0, square = 0;
  for (Eigen::Index out = 0; out < 12; ++out) {
    std::vector<Eigen::Index> kept;
    Eigen::Index own = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (rows[r] == out) own = static_cast<Eigen::Index>(r);
      if (rows[r] != out) kept.push_back(static_cast<Eigen::Index>(r));
    }
    const Plain without(s(kept, Eigen::all), p.targets(kept, Eigen::all), width, ridge, mean);
    error += (p.targets.row(own) - without.at(s.row(own))).squaredNorm();
    square += (p.targets.row(own) - mean).squaredNorm();
  }
  EXPECT_NEAR(found.fit.error, error / square, 1e-6 * found.fit.error);
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

TEST(KernelRidge, TheLeastStrengthIsEnoughForRowsThatAreAllAlike) {
  for (const std::size_t count : {20U, 200U}) {
    for (const std::size_t apart : {count, std::size_t{2}}) {  // the rest repeat the first
      Matrix rows = random_matrix(count, 3, 1);
      for (std::size_t r = apart; r < count; ++r) std::ranges::copy(rows.row(0), rows.row(r).begin());
      const Problem problem(std::move(rows), as_rows(random_matrix(count, 2, 2)));
      for (const double width : {kLeastWidth, 0.125, 2.0, kMostWidth}) {
        EXPECT_TRUE(all_finite(problem.regress(by_hand(width, kLeastStrength, 0)))) << count << ", " << width;
      }
    }
  }
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
