// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/param.h"
#include "anchors/param/trainer.h"
#include "compute/devices.h"
#include "compute/sequence.h"
#include "support.h"

#include <cmath>
#include <exception>
#include <numeric>

namespace kedge {
namespace {

using test::expect_error;
using test::Place;
using test::random_matrix;
using test::same_bits;
using test::space_of;
using test::TemporaryFolder;

/// Two spaces that see the same latent rows.
struct Toy {
  explicit Toy(std::size_t rows = 90) : a(rows, 8), b(rows, 6) {
    const Matrix latent = random_matrix(rows, 5, 1);
    for (auto [x, seed] : {std::pair{&a, 2U}, std::pair{&b, 3U}}) {
      const Matrix mixing = random_matrix(5, x->cols(), seed);
      const Matrix noise = random_matrix(rows, x->cols(), seed + 10);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < x->cols(); ++c) {
          x->row(r)[c] = 0.1F * noise.row(r)[c];
          for (std::size_t k = 0; k < 5; ++k) x->row(r)[c] += latent.row(r)[k] * mixing.row(k)[c];
        }
      }
    }
  }
  [[nodiscard]] std::vector<Space> spaces() const { return {space_of("a", a), space_of("b", b)}; }
  Matrix a, b;
};

FitOptions small_fit(const Place& place = test::kCpu) {
  FitOptions options;
  options.method = Param{};
  options.device = place.device;
  options.precision = place.precision;
  options.anchors = 12;
  options.support = 40;
  std::get<Param>(options.method).epochs = 6;
  std::get<Param>(options.method).batch = 32;
  return options;
}

struct Stop : std::exception {};

/// Lets `steps` steps of learning happen, or as many more as come before the next report, then stops.
Progress stop_after(std::size_t steps) {
  return [steps](const ProgressReport& report) {
    if (report.step == "learning" && report.done >= steps) throw Stop{};
  };
}

class ParamOn : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    if (const auto why = test::missing(GetParam())) GTEST_SKIP() << *why;
  }
};

INSTANTIATE_TEST_SUITE_P(All, ParamOn, ::testing::Values(test::kCpu, test::kCudaFp32, test::kCudaTf32, test::kCudaBf16),
                         [](const auto& each) { return name_of(each.param); });

TEST_P(ParamOn, SameSeedSameBits) {
  const Toy toy;
  const Bundle first = fit(toy.spaces(), small_fit(GetParam()));
  const Bundle second = fit(toy.spaces(), small_fit(GetParam()));
  EXPECT_TRUE(same_bits(first.anchors().mixture, second.anchors().mixture));
  FitOptions other = small_fit(GetParam());
  other.seed = 1;
  EXPECT_FALSE(same_bits(first.anchors().mixture, fit(toy.spaces(), other).anchors().mixture));
}

TEST_P(ParamOn, ResumedTrainingEndsInTheSameBits) {
  const TemporaryFolder folder;
  const Toy toy;
  const Bundle whole = fit(toy.spaces(), small_fit(GetParam()));
  FitOptions options = small_fit(GetParam());
  std::get<Param>(options.method).checkpoint.path = folder.file("checkpoint");
  for (const std::size_t stop : {1U, 5U, 6U, 11U}) {  // 2 steps an epoch: within epochs and between them
    std::get<Param>(options.method).checkpoint.resume = stop != 1;
    EXPECT_THROW((void)fit(toy.spaces(), options, stop_after(stop)), Stop);
    EXPECT_THAT(folder.files(), ::testing::ElementsAre("checkpoint"));
  }
  std::get<Param>(options.method).checkpoint.resume = true;
  const Bundle resumed = fit(toy.spaces(), options);
  EXPECT_TRUE(same_bits(whole.anchors().mixture, resumed.anchors().mixture));
  ASSERT_EQ(whole.anchors().history.size(), resumed.anchors().history.size());
  for (std::size_t i = 0; i < whole.anchors().history.size(); ++i)
    EXPECT_EQ(whole.anchors().history[i].total, resumed.anchors().history[i].total);
}

TEST(Param, AnotherTrainingsCheckpointIsRefused) {
  const TemporaryFolder folder;
  const Toy toy;
  FitOptions options = small_fit();
  std::get<Param>(options.method).checkpoint.path = folder.file("checkpoint");
  EXPECT_THROW((void)fit(toy.spaces(), options, stop_after(3)), Stop);
  std::get<Param>(options.method).checkpoint.resume = true;
  std::get<Param>(options.method).learning_rate = 0.01;
  expect_error(
      Code::bad_argument, [&] { (void)fit(toy.spaces(), options); }, "belongs to a different training run", "0.03",
      "0.01");
  options = small_fit();
  std::get<Param>(options.method).checkpoint = {folder.file("checkpoint"), 10, true};
  std::get<Param>(options.method).epochs = 9;  // more epochs continue the same training
  EXPECT_EQ(fit(toy.spaces(), options).anchors().history.size(), 9U);
  test::write_file(folder.file("checkpoint"), "nonsense");
  expect_error(
      Code::bad_file, [&] { (void)fit(toy.spaces(), options); }, "checkpoint");
}

TEST_P(ParamOn, CheckpointsAreWrittenAsItGoes) {
  const TemporaryFolder folder;
  const Toy toy;
  FitOptions options = small_fit(GetParam());
  std::get<Param>(options.method).checkpoint = {folder.file("checkpoint"), 2, false};
  std::size_t seen = 0;
  (void)fit(toy.spaces(), options, [&](const ProgressReport& report) {
    if (report.step == "learning" && report.done == 4) seen = folder.files().size();
  });
  EXPECT_EQ(seen, 1U);
}

TEST_P(ParamOn, LossesAreThoseOfTheProcessor) {
  const Toy toy;
  const Bundle wanted = fit(toy.spaces(), small_fit());
  const Bundle found = fit(toy.spaces(), small_fit(GetParam()));
  ASSERT_EQ(found.anchors().history.size(), wanted.anchors().history.size());
  for (std::size_t i = 0; i < wanted.anchors().history.size(); ++i) {
    EXPECT_NEAR(found.anchors().history[i].total, wanted.anchors().history[i].total,
                5e-3 * wanted.anchors().history[i].total)
        << "epoch " << i + 1;
  }
}

TEST_P(ParamOn, LearningLowersTheLossAndAlignsTheSpaces) {
  const Toy toy;
  FitOptions options = small_fit(GetParam());
  std::get<Param>(options.method).epochs = 60;
  const Bundle bundle = fit(toy.spaces(), options);
  EXPECT_LT(bundle.anchors().history.back().total, 0.9 * bundle.anchors().history.front().total);
  EXPECT_LT(bundle.anchors().history.back().symnce, bundle.anchors().history.front().symnce);
  const auto agreement = [&](const Bundle& b) {
    return compare(b.map("a")->apply(toy.a.view()).view(), b.map("b")->apply(toy.b.view()).view()).mrr;
  };
  options.method = ChosenRows{Choice::random};
  EXPECT_GT(agreement(bundle), agreement(fit(toy.spaces(), options)));
}

TEST_P(ParamOn, MixtureIsConvex) {
  const Toy toy;
  const Bundle bundle = fit(toy.spaces(), small_fit(GetParam()));
  test::expect_convex(bundle.anchors().mixture);
}

TEST_P(ParamOn, OneSpaceOrNoWeightLearnsWithoutContrast) {
  const Toy toy;
  const Bundle single = fit(std::vector{space_of("a", toy.a)}, small_fit(GetParam()));
  EXPECT_EQ(single.anchors().history.back().symnce, 0);
  FitOptions options = small_fit(GetParam());
  std::get<Param>(options.method).weight_symnce = 0;
  std::get<Param>(options.method).batch = 90;  // all rows, so that epochs can be compared
  std::get<Param>(options.method).epochs = 30;
  const Bundle several = fit(toy.spaces(), options);
  EXPECT_EQ(several.anchors().history.back().symnce, 0);
  EXPECT_LT(several.anchors().history.back().total, several.anchors().history.front().total);
}

TEST_P(ParamOn, UnusualSizesNeverGiveNan) {
  const Toy toy;
  const auto check = [&](auto change, std::vector<Space> spaces) {
    FitOptions options = small_fit(GetParam());
    change(options);
    const Bundle bundle = fit(spaces, options);
    for (const float weight : bundle.anchors().mixture.cells()) ASSERT_TRUE(std::isfinite(weight));
    for (const Attachment& space : bundle.spaces()) {
      for (const float weight : space.map->weight().cells()) ASSERT_TRUE(std::isfinite(weight));
    }
  };
  check([](FitOptions& o) { std::get<Param>(o.method).batch = 1; }, toy.spaces());
  check([](FitOptions& o) { std::get<Param>(o.method).batch = 5000; }, toy.spaces());
  check([](FitOptions& o) { std::get<Param>(o.method).batch = 50; },
        toy.spaces());  // 90 rows: the rest of an epoch is left out
  check([](FitOptions& o) { o.anchors = 1; }, toy.spaces());
  check([](FitOptions& o) { o.anchors = 40; }, toy.spaces());
  check([](FitOptions& o) { std::get<Param>(o.method).epochs = 0; }, toy.spaces());
  check([](FitOptions& o) { std::get<Param>(o.method).coverage_rows = CoverageRows::all; }, toy.spaces());
  check([](FitOptions&) {}, {space_of("a", toy.a), space_of("same", toy.a)});
  check([](FitOptions& o) { o.similarity = Similarity::cosine; }, toy.spaces());
}

TEST_P(ParamOn, ALossThatIsNotFiniteStopsAndKeepsTheLastCheckpoint) {
  const TemporaryFolder folder;
  const Toy toy;
  FitOptions options = small_fit(GetParam());
  std::get<Param>(options.method).checkpoint = {folder.file("checkpoint"), 1, false};
  EXPECT_THROW((void)fit(toy.spaces(), options, stop_after(4)), Stop);
  const std::string kept = test::read_file(folder.file("checkpoint"));
  std::get<Param>(options.method).learning_rate = 3e38;
  std::get<Param>(options.method).checkpoint.every = 100;
  expect_error(
      Code::failed, [&] { (void)fit(toy.spaces(), options); }, "the loss became", "at step", "last good checkpoint");
  EXPECT_EQ(test::read_file(folder.file("checkpoint")), kept);
}

TEST(Param, OptionsOutOfRangeAreNamed) {
  const Toy toy;
  const auto refused = [&](auto change, const char* words) {
    FitOptions options = small_fit();
    change(std::get<Param>(options.method));
    expect_error(
        Code::bad_argument, [&] { (void)fit(toy.spaces(), options); }, words);
  };
  refused([](Param& o) { o.batch = 0; }, "batch is 0");
  refused([](Param& o) { o.learning_rate = -1; }, "learning rate is -1");
  refused([](Param& o) { o.temperature = 0; }, "temperature is 0");
  refused([](Param& o) { o.tau_symnce = 0.001; }, "tau_symnce is 0.001, expected 0.025 or more");
  refused([](Param& o) { o.weight_length = std::nan(""); }, "weight_length is nan");
  refused([](Param& o) { o.beta2 = 1; }, "beta2 is 1");
}

TEST(Param, BundlesKeepOptionsAndHistory) {
  const TemporaryFolder folder;
  const Toy toy;
  FitOptions options = small_fit();
  std::get<Param>(options.method).weight_decay = 0.01;
  const Bundle bundle = fit(toy.spaces(), options);
  save_bundle(bundle, folder.file("x.kedge"));
  const Bundle loaded = load_bundle(folder.file("x.kedge"));
  EXPECT_TRUE(std::holds_alternative<Param>(loaded.made().method));
  EXPECT_EQ(std::get<Param>(loaded.made().method).weight_decay, 0.01);
  EXPECT_EQ(std::get<Param>(loaded.made().method).epochs, 6U);
  ASSERT_EQ(loaded.anchors().history.size(), 6U);
  EXPECT_EQ(loaded.anchors().history[5].coverage, bundle.anchors().history[5].coverage);
}

}  // namespace
}  // namespace kedge
