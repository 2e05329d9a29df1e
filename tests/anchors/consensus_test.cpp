// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"
#include "support.h"

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kedge {
namespace {

using test::expect_error;
using test::random_matrix;
using test::space_of;

/// Views of the same hidden causes: each space mixes them its own way and adds its own noise.
struct World {
  explicit World(std::size_t rows = 600, std::size_t causes = 6, float noise = 0.2F)
      : hidden(random_matrix(rows, causes, 1)) {
    for (unsigned i = 0; i < 4; ++i) {
      const std::size_t dim = 8 + 2 * i;
      const Matrix mix = random_matrix(causes, dim, 10 + i);
      Matrix x = random_matrix(rows, dim, 20 + i);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < dim; ++c) {
          x.row(r)[c] *= noise;
          for (std::size_t k = 0; k < causes; ++k) x.row(r)[c] += hidden.row(r)[k] * mix.row(k)[c];
          x.row(r)[c] = 5 + static_cast<float>(1 + i) * x.row(r)[c];
        }
      }
      views.push_back(std::move(x));
    }
  }
  [[nodiscard]] Space space(std::size_t i) const {
    return space_of(std::string(1, static_cast<char>('a' + i)), views[i]);
  }
  [[nodiscard]] std::vector<Space> sources(std::size_t count = 3) const {
    std::vector<Space> spaces;
    for (std::size_t i = 0; i < count; ++i) spaces.push_back(space(i));
    return spaces;
  }

  Matrix hidden;
  std::vector<Matrix> views;
};

FitOptions consensus_options(std::size_t anchors = 6, std::size_t support = 200) {
  FitOptions options;
  options.method = Consensus{};
  options.anchors = anchors;
  options.support = support;
  return options;
}

double mrr(const Bundle& bundle, const Attachment& attached, const World& world, std::size_t view) {
  const Matrix a = bundle.map("a")->apply(world.views[0].view());
  return compare(a.view(), attached.map->apply(world.views[view].view()).view()).mrr;
}

TEST(Consensus, AnEncoderNeverSeenFindsTheSameRows) {
  const World world;
  const Bundle bundle = fit(world.sources(), consensus_options());
  EXPECT_EQ(bundle.attach_by, AttachBy::ridge);
  const Attachment attached = attach(bundle, world.space(3));
  EXPECT_GT(mrr(bundle, attached, world, 3), 0.9);
  ASSERT_TRUE(attached.ridge);
  EXPECT_GT(attached.ridge->mean_r2, 0.8);
}

TEST(Consensus, TheSupportRowsAloneAreEnough) {
  const World world;
  const Bundle bundle = fit(world.sources(), consensus_options());
  Matrix support(200, world.views[3].cols());
  for (std::size_t i = 0; i < 200; ++i) {
    std::ranges::copy(world.views[3].row(static_cast<std::size_t>(bundle.support_ids[i])), support.row(i).begin());
  }
  const Attachment attached = attach(bundle, space_of("few", support), {true, {}, {}});
  EXPECT_GT(mrr(bundle, attached, world, 3), 0.9);
}

TEST(Consensus, OneSpaceGivesItsPrincipalDirections) {
  const World world;
  FitOptions options = consensus_options(3, 600);
  options.whitening = {0.5, 0};  // unshrunk, all directions would be alike
  const Bundle bundle = fit(world.sources(1), options);
  ASSERT_EQ(bundle.targets.cols(), 3U);
  const Moments moments = compute_moments(world.space(0));
  const Matrix64 covariance = moments.covariance();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> principal{Eigen::MatrixXd(as_eigen(covariance.view()))};
  for (std::size_t c = 0; c < 3; ++c) {
    const auto place = static_cast<Eigen::Index>(7 - c);  // the largest comes last
    const Eigen::VectorXd direction = principal.eigenvectors().col(place) / std::sqrt(principal.eigenvalues()[place]);
    double square = 0, along = 0;
    for (std::size_t r = 0; r < 600; ++r) {
      double score = 0;
      for (std::size_t k = 0; k < 8; ++k) {
        score += (world.views[0].row(r)[k] - moments.mean()[k]) * direction[static_cast<Eigen::Index>(k)];
      }
      square += std::pow(bundle.targets.row(r)[c], 2) / 600;
      along += bundle.targets.row(r)[c] * score / 600;
    }
    EXPECT_NEAR(square, 1, 1e-4);  // of unit variance over all rows, which are the support here
    EXPECT_NEAR(std::abs(along), 1, 1e-4) << c;
  }
}

TEST(Consensus, ThereAreNoMoreAnchorsThanSharedDirections) {
  const World world;
  const Bundle bundle = fit(world.sources(), consensus_options(100));
  EXPECT_LT(bundle.mixture.rows(), 30U);  // 8 + 10 + 12 values in all, and the spaces contradict each other on some
  for (std::size_t r = 0; r < bundle.mixture.rows(); ++r) EXPECT_GT(test::largest(bundle.mixture.row(r)), 0) << r;
  EXPECT_EQ(bundle.map("a")->output_dim(), bundle.mixture.rows());
  EXPECT_EQ(fit(world.sources(1), consensus_options(100)).mixture.rows(), 8U);
}

TEST(Consensus, DirectionsAreSortedByAgreementAndWeightedByIt) {
  const World world;
  const Bundle bundle = fit(world.sources(), consensus_options(20));
  FitOptions flat_options = consensus_options(20);
  std::get<Consensus>(flat_options.method).power = 0;
  const Bundle flat = fit(world.sources(), flat_options);
  double last = 1.3;  // shrinkage lets it be a little above 1
  for (std::size_t c = 0; c < bundle.targets.cols(); ++c) {
    double weighted = 0;
    double plain = 0;
    for (std::size_t r = 0; r < 200; ++r) {
      weighted += std::pow(bundle.targets.row(r)[c], 2);
      plain += std::pow(flat.targets.row(r)[c], 2);
    }
    EXPECT_LE(weighted / plain, last + 1e-6);
    last = weighted / plain;
  }
  EXPECT_LT(last, 0.8);
}

TEST(Consensus, PowerThatIsNoNumberIsRefused) {
  const World world;
  for (const double power : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    FitOptions options = consensus_options();
    std::get<Consensus>(options.method).power = power;
    expect_error(
        Code::bad_argument, [&] { (void)fit(world.sources(), options); }, "power is");
  }
}

TEST(Consensus, SpacesWithNothingInCommonAreRefused) {
  // Two columns that never vary together, whitened exactly: every eigenvalue is 1.
  Matrix x(4, 1);
  Matrix y(4, 1);
  const float xs[] = {1, 1, -1, -1};
  const float ys[] = {1, -1, 1, -1};
  for (std::size_t r = 0; r < 4; ++r) {
    x.row(r)[0] = xs[r];
    y.row(r)[0] = ys[r];
  }
  FitOptions options = consensus_options(1, 4);
  options.whitening = {0, 0};
  expect_error(
      Code::bad_argument,
      [&] {
        (void)fit(std::vector{space_of("x", x), space_of("y", y)}, options);
      },
      "agree on no direction");
}

TEST(Attach, RidgeServesEveryWipBundle) {
  const World world;
  for (const Method& method : std::vector<Method>{ChosenRows{Choice::random}, ChosenRows{Choice::fps}, Param{}}) {
    FitOptions options = consensus_options(40);
    options.method = method;
    if (std::holds_alternative<Param>(method)) std::get<Param>(options.method).epochs = 2;
    const Bundle bundle = fit(world.sources(), options);
    EXPECT_EQ(bundle.attach_by, AttachBy::mixture);
    EXPECT_EQ(bundle.space("a").by, AttachBy::mixture);
    ASSERT_EQ(bundle.targets.rows(), 200U);
    const Attachment mixed = attach(bundle, world.space(3));
    const Attachment regressed = attach(bundle, world.space(3), {false, AttachBy::ridge, {}});
    EXPECT_FALSE(mixed.ridge);
    ASSERT_TRUE(regressed.ridge);
    EXPECT_GT(mrr(bundle, regressed, world, 3), 0.5) << to_string(method);
    EXPECT_GT(mrr(bundle, mixed, world, 3), 0.5) << to_string(method);
  }
}

TEST(Attach, TargetsOfAMixtureAreTheMeanOfTheSources) {
  const World world;
  FitOptions options = consensus_options(5);
  options.method = ChosenRows{Choice::random};
  const Bundle bundle = fit(world.sources(2), options);
  const Matrix a = bundle.map("a")->apply(world.views[0].view());
  const Matrix b = bundle.map("b")->apply(world.views[1].view());
  for (const std::size_t r : {0U, 17U, 199U}) {
    const auto row = static_cast<std::size_t>(bundle.support_ids[r]);
    for (std::size_t c = 0; c < 5; ++c) {
      EXPECT_NEAR(bundle.targets.row(r)[c], (a.row(row)[c] + b.row(row)[c]) / 2,
                  1e-6 * test::largest(bundle.targets.cells()));
    }
  }
}

TEST(Attach, OtherSimilaritiesHaveNoTargetsAndSaySo) {
  const World world;
  FitOptions options = consensus_options();
  options.similarity = Similarity::cosine;
  const Bundle bundle = fit(world.sources(), options);
  EXPECT_EQ(bundle.attach_by, AttachBy::mixture);
  EXPECT_EQ(bundle.targets.rows(), 0U);
  expect_error(
      Code::bad_argument,
      [&] {
        (void)attach(bundle, world.space(3), {false, AttachBy::ridge, {}});
      },
      "no targets", "cosine");
}

TEST(Attach, AGivenRidgeIsUsedAndABadOneRefused) {
  const World world;
  const Bundle bundle = fit(world.sources(), consensus_options());
  EXPECT_EQ(attach(bundle, world.space(3), {false, {}, 0.7}).ridge->strength, 0.7);
  for (const double bad : {-0.1, std::nan(""), std::numeric_limits<double>::infinity()}) {
    expect_error(
        Code::bad_argument,
        [&] {
          (void)attach(bundle, world.space(3), {false, {}, bad});
        },
        "ridge is");
  }
}

TEST(Attach, ARidgeThatWouldNotBeUsedIsRefused) {
  const World world;
  FitOptions options = consensus_options();
  options.method = ChosenRows{Choice::random};
  const Bundle bundle = fit(world.sources(), options);
  for (const std::optional<AttachBy> by : {std::optional<AttachBy>(), std::optional(AttachBy::mixture)}) {
    expect_error(
        Code::bad_argument,
        [&] {
          (void)attach(bundle, world.space(3), {false, by, 0.7});
        },
        "ridge was given, but spaces are attached by mixture; give attach = ridge");
  }
  EXPECT_TRUE(attach(bundle, world.space(3), {false, AttachBy::ridge, 0.7}).ridge);
}

TEST(Shrinkage, RulesChooseWithinBoundsAndEachSpaceItsOwn) {
  const World world;
  FitOptions options = consensus_options();
  for (const ShrinkageRule rule : {ShrinkageRule::ledoit_wolf, ShrinkageRule::oas}) {
    options.shrinkage_rule = rule;
    const Bundle bundle = fit(world.sources(), options);
    EXPECT_GT(bundle.space("a").shrinkage, 0);
    EXPECT_LT(bundle.space("a").shrinkage, 0.1);
    EXPECT_NE(bundle.space("a").shrinkage, bundle.space("b").shrinkage);
    EXPECT_NEAR(attach(bundle, world.space(1)).shrinkage, bundle.space("b").shrinkage, 1e-9);
  }
}

/// Every pair of a row of one and a row of the other, so that nothing is shared, not even by chance; the first column
/// varies most, which shrinkage leaves more than unit variance.
TEST(Consensus, IndependentSpacesAgreeOnNothing) {
  Matrix a(64, 2), b(64, 2);
  for (std::size_t i = 0; i < 64; ++i) {
    a.row(i)[0] = 10 * (i % 8 < 4 ? 1.F : -1.F);
    a.row(i)[1] = i % 2 == 0 ? 1.F : -1.F;
    b.row(i)[0] = 10 * (i / 8 < 4 ? 1.F : -1.F);
    b.row(i)[1] = i / 8 % 2 == 0 ? 1.F : -1.F;
  }
  const std::vector<Space> spaces{space_of("a", a), space_of("b", b)};
  expect_error(
      Code::bad_argument, [&] { (void)fit(spaces, consensus_options(2, 64)); }, "agree on no direction");
}

TEST(Consensus, StrongDirectionsThatAreNotSharedTakeNoAnchorsFromThoseThatAre) {
  // In each space four strong columns of its own and two weaker ones that both have.
  Matrix a(256, 6), b(256, 6);
  const auto sign = [](std::size_t row, std::size_t bit) { return (row >> bit) % 2 == 0 ? 1.F : -1.F; };
  for (std::size_t r = 0; r < 256; ++r) {
    for (std::size_t c = 0; c < 3; ++c) {
      a.row(r)[c] = 3 * sign(r, c);
      b.row(r)[c] = 3 * sign(r, 3 + c);
    }
    a.row(r)[3] = b.row(r)[3] = 1.1F * sign(r, 6);
    a.row(r)[4] = b.row(r)[4] = 1.1F * sign(r, 7);
    a.row(r)[5] = b.row(r)[5] = 1.1F * sign(r, 7) * sign(r, 6);
  }
  const std::vector<Space> spaces{space_of("a", a), space_of("b", b)};
  for (const std::size_t anchors : {1U, 2U, 3U}) {
    FitOptions options = consensus_options(anchors, 64);
    options.whitening.shrinkage = 0.3;
    const Bundle bundle = fit(spaces, options);
    EXPECT_EQ(bundle.mixture.rows(), anchors);
    EXPECT_TRUE(std::ranges::any_of(bundle.mixture.row(anchors - 1), [](float weight) { return weight != 0; }));
    EXPECT_EQ(tell_of_fewer_anchors(bundle, options), "");
  }
  FitOptions more = consensus_options(9, 64);  // of the 12 directions that there are
  more.whitening.shrinkage = 0.3;
  const Bundle bundle = fit(spaces, more);
  EXPECT_EQ(bundle.mixture.rows(), 3U);
  EXPECT_EQ(bundle.targets.cols(), 3U);
  EXPECT_EQ(tell_of_fewer_anchors(bundle, more),
            "asked for 9 anchors, but the spaces share only 3 directions, so the bundle has 3");
  EXPECT_EQ(attach(bundle, space_of("c", a)).map->output_dim(), 3U);
  more.anchors.reset();
  EXPECT_EQ(tell_of_fewer_anchors(bundle, more),
            "the bundle has 3 anchors, not 300: that is how many directions the spaces share");
}

}  // namespace
}  // namespace kedge
