// SPDX-License-Identifier: Apache-2.0
#include "map/encoders.h"

namespace kedge {
namespace {

using test::Encoders;
using test::expect_error;
using test::expect_same;
using test::kFitted;
using test::largest;
using test::space_of;
using test::TemporaryFolder;
using test::with;

/// Share of the squares of `truth` around 3 that `found` leaves.
double unexplained(MatrixView<const float> truth, const Matrix& found) {
  double error = 0, all = 0;
  for (std::size_t r = 0; r < truth.rows; ++r) {
    for (std::size_t c = 0; c < truth.cols; ++c) {
      error += std::pow(truth.row(r)[c] - found.row(r)[c], 2);
      all += std::pow(truth.row(r)[c] - 3.0, 2);
    }
  }
  return error / all;
}

double translation_error(const Encoders& encoders, const Bundle& bundle, const std::string& from,
                         const std::string& to) {
  return unexplained(encoders.unseen(to), Translator(bundle, from, to).apply(encoders.unseen(from)));
}

void expect_near(const Matrix& found, const Matrix& wanted, double share) {
  ASSERT_EQ(found.rows(), wanted.rows());
  ASSERT_EQ(found.cols(), wanted.cols());
  const double near = share * largest(wanted.cells());
  for (std::size_t i = 0; i < wanted.cells().size(); ++i) ASSERT_NEAR(found.cells()[i], wanted.cells()[i], near) << i;
}

class KernelAttach : public ::testing::TestWithParam<Method> {};

TEST_P(KernelAttach, ReachesTheTargetsAtItsSupportRows) {
  const Encoders encoders;
  const Bundle bundle = encoders.fitted(with(GetParam(), AttachBy::kernel));
  for (const Attachment& space : bundle.spaces()) {
    EXPECT_EQ(to_string(space.by), "kernel");
    ASSERT_TRUE(space.kernel() && space.map->kernel() && space.decoder);
    EXPECT_FALSE(space.ridge() || space.mixture() || space.choice() || space.reverse());
    EXPECT_EQ(space.kernel()->r2.size(), bundle.anchors().mixture.rows());
    EXPECT_EQ(space.map->kernel()->rows.rows(), bundle.anchors().support_ids.size());
    EXPECT_GT(space.kernel()->mean_r2, 0.8) << space.space();
    const Matrix rr = space.map->apply(encoders.all.at(space.space()).view());
    double error = 0, squares = 0;
    for (std::size_t i = 0; i < bundle.anchors().support_ids.size(); ++i) {
      for (std::size_t c = 0; c < rr.cols(); ++c) {
        error += std::pow(
            rr.row(static_cast<std::size_t>(bundle.anchors().support_ids[i]))[c] - bundle.anchors().targets.row(i)[c],
            2);
        squares += std::pow(bundle.anchors().targets.row(i)[c], 2);
      }
    }
    EXPECT_LT(error, space.kernel()->error * squares + 1e-9 * squares);  // rows that were there are met better
  }
}

TEST_P(KernelAttach, AutoTakesTheSmallerErrorAndKeepsBoth) {
  const Encoders encoders;
  const Bundle chosen = encoders.fitted(with(GetParam(), AttachBy::automatic));
  const Bundle line = encoders.fitted(with(GetParam(), AttachBy::ridge));
  const Bundle curve = encoders.fitted(with(GetParam(), AttachBy::kernel));
  EXPECT_EQ(chosen.made().attach_by, AttachBy::automatic);
  for (const Attachment& space : chosen.spaces()) {
    ASSERT_TRUE(space.choice());
    EXPECT_EQ(to_string(space.by), space.choice()->kernel_error < space.choice()->ridge_error ? "kernel" : "ridge");
    EXPECT_EQ(space.choice()->kernel_error, curve.space(space.space()).kernel()->error);
    EXPECT_GT(space.choice()->ridge_error, 0);
    expect_same(*space.map, *(space.kernel() != nullptr ? curve : line).map(space.space()));
  }
  const Attachment third = attach(chosen, encoders.space("c"));  // as the bundle's others
  EXPECT_TRUE(third.choice());
}

INSTANTIATE_TEST_SUITE_P(Methods, KernelAttach,
                         ::testing::Values(Method(Consensus{}), Method(Param{}), Method(ChosenRows{Choice::random})),
                         [](const auto& param) { return std::string(to_string(param.param)); });

TEST(KernelMap, ANewSpaceIsAttachedByKernelToWhateverHasTargets) {
  const Encoders encoders;
  for (const Method& method : std::vector<Method>{Consensus{}, ChosenRows{Choice::random}, Adapter{Pairwise::ridge},
                                                  Adapter{Pairwise::procrustes}, Adapter{Pairwise::kernel}}) {
    Bundle bundle = encoders.fitted(with(method));
    AttachOptions options;
    options.by = AttachBy::kernel;
    bundle = bundle.with(attach(bundle, encoders.space("c"), options));
    EXPECT_TRUE(bundle.map("c")->kernel());
    EXPECT_LT(translation_error(encoders, bundle, "c", "a"), 0.2) << to_string(method);
  }
}

TEST(KernelMap, TheBestEffortIsRefinementAndKernel) {
  const Encoders encoders;
  FitOptions options = with(Consensus{});
  options.effort = Effort::best;
  EXPECT_TRUE(encoders.fitted(options).anchors().refine_losses.empty());  // every row is in the support
  options.support = kFitted - 40;
  const Bundle best = encoders.fitted(options);
  EXPECT_EQ(best.made().attach_by, AttachBy::kernel);
  EXPECT_EQ(std::get<Consensus>(best.made().method).refinement.epochs, Refinement::kBestEpochs);
  options = with(Consensus{}, AttachBy::kernel);
  options.support = kFitted - 40;
  std::get<Consensus>(options.method).refinement.epochs = Refinement::kBestEpochs;
  expect_same(*encoders.fitted(options).map("b"), *best.map("b"));

  AttachOptions effort;
  effort.effort = Effort::best;
  EXPECT_TRUE(attach(encoders.fitted(with(Consensus{})), encoders.space("c"), effort).kernel());
  effort.by = AttachBy::ridge;  // what is asked for goes first
  EXPECT_EQ(to_string(attach(best, encoders.space("c"), effort).by), "ridge");
}

TEST(KernelMap, KeptSupportRowsAreTheOnesItCompares) {
  const Encoders encoders;
  FitOptions options = with(ChosenRows{Choice::random}, AttachBy::kernel);
  std::get<ChosenRows>(options.method).keep = 2;
  options.anchors = 30;
  const Bundle bundle = encoders.fitted(options);
  EXPECT_LE(bundle.anchors().support_ids.size(), 60U);
  EXPECT_EQ(bundle.map("a")->kernel()->rows.rows(), bundle.anchors().support_ids.size());
  EXPECT_TRUE(attach(bundle, encoders.space("c")).map->kernel());
}

TEST(KernelMap, OneVectorGivesWhatABlockGives) {
  const Encoders encoders;
  const auto map = encoders.fitted(with(Consensus{}, AttachBy::kernel)).map("b");
  const Matrix rr = map->apply(encoders.unseen("b"));
  Matrix alone(rr.rows(), rr.cols());
  for (std::size_t r = 0; r < rr.rows(); ++r) map->apply(encoders.unseen("b").row(r), alone.row(r));
  expect_near(alone, rr, 1e-5);
}

TEST(KernelMap, MomentsAndSupportRowsAreEnough) {
  const Encoders encoders;
  FitOptions options = with(Consensus{}, AttachBy::kernel);
  options.anchors = 4;
  for (std::int64_t id = 0; id < 300; id += 2) options.support_ids.push_back(id);
  const std::vector<Space> spaces{encoders.space("a"), encoders.space("b")};
  const Bundle wanted = fit(spaces, options);
  SupportRows rows{options.support_ids, {}};
  for (const Space& space : spaces) rows.rows.push_back(space.gather(options.support_ids));
  const Bundle found = fit(FitInput{{compute_joint_moments(spaces)}, rows}, options);
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(found.space(name).kernel()->width, wanted.space(name).kernel()->width);
    expect_near(found.map(name)->apply(encoders.unseen(name)), wanted.map(name)->apply(encoders.unseen(name)), 1e-4);
  }
  const Space third = encoders.space("c");
  const Attachment by_rows = attach(wanted, third);
  const Attachment by_moments = attach(wanted, AttachInput{compute_moments(third), third.gather(options.support_ids)});
  ASSERT_TRUE(by_moments.map->kernel());
  expect_near(by_moments.map->apply(encoders.unseen("c")), by_rows.map->apply(encoders.unseen("c")), 1e-4);
}

TEST(KernelAdapter, TranslatesBothWaysBetterThanALineWhereEncodersAreBent) {
  const Encoders encoders;
  const Bundle curve = encoders.fitted(with(Adapter{Pairwise::kernel})),
               line = encoders.fitted(with(Adapter{Pairwise::ridge}));
  for (const auto& [from, to] : {std::pair("a", "b"), {"b", "a"}}) {
    EXPECT_LT(translation_error(encoders, curve, from, to), 0.7 * translation_error(encoders, line, from, to))
        << from << " to " << to;
  }
}

TEST(KernelAdapter, IsNearlyExactWhereBothAreLinearViews) {
  const Encoders encoders(false, 0);
  const Bundle bundle = encoders.fitted(with(Adapter{Pairwise::kernel}));
  EXPECT_LT(translation_error(encoders, bundle, "a", "b"), 1e-3);
  EXPECT_LT(translation_error(encoders, bundle, "b", "a"), 1e-3);
}

TEST(KernelAdapter, HasAKernelOnEitherWayAndAnExactDecoder) {
  const Encoders encoders;
  for (const Similarity similarity : {Similarity::wip, Similarity::inner}) {
    FitOptions options = with(Adapter{Pairwise::kernel});
    options.similarity = similarity;
    const Bundle bundle = encoders.fitted(options);
    const Attachment a = bundle.space("a"), b = bundle.space("b");
    EXPECT_EQ(to_string(a.by), "kernel");
    EXPECT_EQ(to_string(b.by), "direct");
    ASSERT_TRUE(a.reverse());
    EXPECT_EQ(a.reverse()->space(), "b");
    EXPECT_FALSE(b.reverse() || b.map->kernel());
    expect_near(Translator(bundle, "b", "a").apply(encoders.unseen("b")), a.reverse()->apply(encoders.unseen("b")),
                1e-6);
    EXPECT_LT(translation_error(encoders, bundle, "b", "b"), 1e-8);
    EXPECT_EQ(bundle.anchors().mixture.rows(), 8U);
  }
}

TEST(KernelAdapter, ATranslationIsTheMapThenTheDecoder) {
  const Encoders encoders;
  Bundle bundle = encoders.fitted(with(Adapter{Pairwise::kernel}));
  bundle = bundle.with(attach(bundle, encoders.space("c")));
  EXPECT_TRUE(bundle.map("c")->kernel());  // as the bundle says
  for (const auto& [from, to] : {std::pair("a", "b"), {"c", "a"}, {"c", "b"}, {"a", "c"}}) {
    const Matrix rr = bundle.map(from)->apply(encoders.unseen(from));
    const Decoder& back = *bundle.space(to).decoder;
    Matrix wanted(rr.rows(), back.bias.size());
    for (std::size_t r = 0; r < rr.rows(); ++r) {
      for (std::size_t c = 0; c < wanted.cols(); ++c) {
        double value = back.bias[c];
        for (std::size_t k = 0; k < rr.cols(); ++k) value += static_cast<double>(back.weight.row(c)[k]) * rr.row(r)[k];
        wanted.row(r)[c] = static_cast<float>(value);
      }
    }
    expect_near(Translator(bundle, from, to).apply(encoders.unseen(from)), wanted, 1e-4);
  }
  for (const char* to : {"a", "b"}) EXPECT_LT(translation_error(encoders, bundle, "c", to), 0.2) << to;
  const TemporaryFolder folder;
  const Translator translator(bundle, "c", "a");
  translate(translator, space_of("c", encoders.all.at("c")), folder.file("a.npy"));
  expect_near(Space("a", open_rows(folder.file("a.npy"))).read_all(), translator.apply(encoders.all.at("c").view()),
              1e-5);
}

TEST(KernelAdapter, AReplacedSpaceTakesNoOldWayBackWithIt) {
  const Encoders encoders;
  Bundle bundle = encoders.fitted(with(Adapter{Pairwise::kernel}));
  const Space other("b", view_rows(encoders.all.at("c").view(), "c"), {0, kFitted});  // of 5 values, not 8
  bundle = bundle.with(attach(bundle, other));
  EXPECT_FALSE(bundle.space("a").reverse());
  const Translator back(bundle, "b", "a");
  EXPECT_EQ(back.input_dim(), 5U);
  EXPECT_LT(unexplained(encoders.unseen("a"), back.apply(encoders.unseen("c"))), 0.2);
  (void)bundle_from_bytes(bundle_to_bytes(bundle), "bytes");
}

TEST(KernelOptions, OfAnotherWayAreRefused) {
  const Encoders encoders;
  const auto refuse = [&](const FitOptions& options, auto... words) {
    expect_error(
        Code::bad_argument, [&] { (void)encoders.fitted(options); }, words...);
  };
  FitOptions options = with(Consensus{}, AttachBy::kernel);
  options.ridge = 0.1;
  refuse(options, "ridge was given", "attached by kernel");
  options = with(Consensus{}, AttachBy::mixture);
  options.kernel.width = 2;
  refuse(options, "of a kernel", "attached by mixture");
  options = with(Consensus{}, AttachBy::automatic);
  options.kernel.strength = 1e9;
  refuse(options, "kernel_strength", "1000000");
  options = with(ChosenRows{Choice::random}, AttachBy::kernel);
  options.similarity = Similarity::cosine;
  refuse(options, "attached by kernel", "cosine");
  options = with(Adapter{Pairwise::kernel});
  options.similarity = Similarity::euclidean;
  refuse(options, "kernel works with the similarity wip");
  options = with(Adapter{Pairwise::kernel}, AttachBy::mixture);
  refuse(options, "no anchors to mix");
}

}  // namespace
}  // namespace kedge
