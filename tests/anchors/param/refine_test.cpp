// SPDX-License-Identifier: Apache-2.0
#include "anchors/consensus.h"
#include "anchors/param/refine.h"
#include "compute/devices.h"
#include "support.h"

#include <cmath>
#include <numeric>

namespace kedge {
namespace {

using test::expect_error;
using test::random_matrix;
using test::space_of;

class RefineObjectiveOn : public ::testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (const auto why = test::missing(GetParam())) GTEST_SKIP() << *why;
  }
};

INSTANTIATE_TEST_SUITE_P(All, RefineObjectiveOn, ::testing::Values(Device::cpu, Device::cuda),
                         [](const auto& each) { return std::string(to_string(each.param)); });

TEST_P(RefineObjectiveOn, GradientIsThatOfFiniteDifferences) {
  for (const std::size_t anchors : {1U, 4U, 9U}) {
    const auto backend = make_backend(GetParam(), Precision::fp32);
    const Matrix rows = random_matrix(12, 11, 1);
    const Matrix regressors = random_matrix(7, 11, 2);
    WhitenedSpaces spaces{backend->make(12, 11), {3, 6, 2}};
    backend->upload(rows.view(), spaces.rows->panel());
    const auto uploaded = backend->make(7, 11);
    backend->upload(regressors.view(), uploaded->panel());
    RefineObjective objective(*backend, std::move(spaces), uploaded->panel(), anchors, 12, 0.5);
    Matrix targets = random_matrix(anchors, 7, 3);
    const auto values = backend->make(anchors, 7);
    const auto gradient = backend->make(anchors, 7);
    std::vector<std::uint32_t> batch(9);
    std::iota(batch.begin(), batch.end(), 2U);
    backend->upload(targets.view(), values->panel());
    (void)objective.evaluate(values->panel(), batch, gradient->panel());
    Matrix found(anchors, 7);
    backend->download(gradient->panel(), found.view());
    const auto loss_with = [&](std::size_t cell, float change) {
      Matrix moved = targets;
      moved.cells()[cell] += change;
      backend->upload(moved.view(), values->panel());
      return objective.evaluate(values->panel(), batch, {});
    };
    const double size = test::largest(found.cells());
    if (anchors > 1) {  // else every cosine is 1 or -1, whatever the targets
      EXPECT_GT(size, 0.02);
    }
    for (std::size_t cell = 0; cell < targets.cells().size(); cell += 3) {
      const double slope = (loss_with(cell, 5e-3F) - loss_with(cell, -5e-3F)) / 1e-2;
      EXPECT_NEAR(found.cells()[cell], slope, 3e-4 + 0.01 * size) << anchors << " anchors, cell " << cell;
    }
  }
}

/// Three noisy views of the same causes.
struct Views {
  Views() {
    const Matrix hidden = random_matrix(800, 5, 1);
    for (unsigned i = 0; i < 3; ++i) {
      const std::size_t dim = 10 + i;
      const Matrix mix = random_matrix(5, dim, 10 + i);
      Matrix x = random_matrix(800, dim, 20 + i);
      for (std::size_t r = 0; r < 800; ++r) {
        for (std::size_t c = 0; c < dim; ++c) {
          for (std::size_t k = 0; k < 5; ++k) x.row(r)[c] += hidden.row(r)[k] * mix.row(k)[c];
        }
      }
      rows.push_back(std::move(x));
    }
  }
  [[nodiscard]] std::vector<Space> spaces() const {
    return {space_of("a", rows[0]), space_of("b", rows[1]), space_of("c", rows[2])};
  }
  std::vector<Matrix> rows;
};

FitOptions refined_options(std::size_t epochs) {
  FitOptions options;
  options.method = Consensus{};
  options.anchors = 12;
  options.support = 300;
  std::get<Consensus>(options.method).refinement.epochs = epochs;
  std::get<Consensus>(options.method).refinement.batch = 128;
  return options;
}

TEST(Refine, WatchesRowsOutsideTheSupportFirst) {
  const Matrix x = random_matrix(5400, 2, 1);
  const Space space = space_of("x", x);
  std::vector<std::size_t> drawn = select_rows(SupportSelect::random, x.view(), 5000, 7);
  const std::vector<std::int64_t> support(drawn.begin(), drawn.end());
  std::vector<bool> in_support(5400);
  for (const std::size_t row : drawn) in_support[row] = true;
  Random random(7);
  const RefineRows rows = split_rows(space, support, 1024, random);
  EXPECT_EQ(rows.watched.size(), 540U);
  EXPECT_EQ(rows.learned.size(), 5400U - 540U);
  const auto unseen = std::ranges::count_if(rows.watched, [&](std::uint32_t row) { return !in_support[row]; });
  EXPECT_EQ(unseen, 400);
}

TEST(Refine, LowersTheLossOnRowsHeldOut) {
  const Views views;
  const std::vector<Space> spaces = views.spaces();
  const Moments joint = compute_joint_moments(spaces);
  std::vector<Whitening> whitenings;
  for (const Space& space : spaces) whitenings.push_back(make_whitening(joint.of(space.name()), {}));
  std::vector<std::int64_t> support(300);
  std::iota(support.begin(), support.end(), 100);
  std::vector<Matrix64> supports;
  for (const Space& space : spaces) supports.push_back(space.gather(support));
  const std::vector<WhiteningBasis> bases(whitenings.begin(), whitenings.end());
  std::vector<std::unique_ptr<const CentredRows>> rows;
  std::vector<const CentredRows*> centred;
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    rows.push_back(centre_rows(supports[i], whitenings[i].mean, Device::cpu));
    centred.push_back(rows.back().get());
  }
  const Matrix targets = find_consensus({bases, centred, 12}, joint, {}).targets;
  const auto backend = make_cpu_backend();
  const Refinement options = std::get<Consensus>(refined_options(20).method).refinement;
  const Refined refined = refine_targets(*backend, {whitenings, supports}, spaces, support, targets, options, 0, {});
  EXPECT_LT(*std::ranges::min_element(refined.losses), refined.losses.front());
  EXPECT_EQ(refined.targets.rows(), targets.rows());
}

TEST(Refine, SameSeedGivesTheSameBitsAndNoEpochsTheClosedForm) {
  const Views views;
  const Bundle first = fit(views.spaces(), refined_options(3));
  const Bundle second = fit(views.spaces(), refined_options(3));
  const Bundle closed = fit(views.spaces(), refined_options(0));
  EXPECT_TRUE(std::ranges::equal(first.anchors().targets.cells(), second.anchors().targets.cells()));
  EXPECT_FALSE(std::ranges::equal(first.anchors().targets.cells(), closed.anchors().targets.cells()));
}

TEST(Refine, RefusesWhatCannotWork) {
  const Views views;
  FitOptions options = refined_options(2);
  expect_error(
      Code::bad_argument, [&] { (void)fit(std::vector{space_of("a", views.rows[0])}, options); }, "only one");
  std::get<Consensus>(options.method).refinement.rate = 0;
  expect_error(
      Code::bad_argument, [&] { (void)fit(views.spaces(), options); }, "refine_rate is 0");
  options = refined_options(2);
  std::get<Consensus>(options.method).refinement.tau = 0.001;
  expect_error(
      Code::bad_argument, [&] { (void)fit(views.spaces(), options); }, "refine_tau is 0.001");
}

}  // namespace
}  // namespace kedge
