// SPDX-License-Identifier: Apache-2.0
#include "compute/neighbors.h"
#include "support.h"

#include <kedge/options/lists.h>

#include <algorithm>
#include <cmath>

namespace kedge {
namespace {

using test::expect_convex;
using test::expect_error;
using test::random_matrix;
using test::space_of;
using test::TemporaryFolder;

Matrix convex_mixture(std::size_t anchors, std::size_t support, unsigned seed) {
  Matrix mixture = random_matrix(anchors, support, seed);
  for (std::size_t r = 0; r < anchors; ++r) {
    double sum = 0;
    for (float& weight : mixture.row(r)) sum += weight = std::exp(weight);
    for (float& weight : mixture.row(r)) weight = static_cast<float>(weight / sum);
  }
  return mixture;
}

Matrix matrix(std::size_t rows, std::size_t cols, const std::vector<float>& cells) {
  Matrix result(rows, cols);
  std::ranges::copy(cells, result.cells().begin());
  return result;
}

TEST(Keep, TheLargestAreKeptAndSumToOne) {
  const Matrix mixture = convex_mixture(7, 40, 1);
  const SparseMixture sparse = keep_largest(mixture, 3);
  expect_convex(sparse.mixture);
  ASSERT_EQ(sparse.mixture.cols(), sparse.columns.size());
  EXPECT_LE(sparse.columns.size(), 21U);
  EXPECT_TRUE(std::ranges::is_sorted(sparse.columns));
  for (std::size_t r = 0; r < 7; ++r) {
    std::vector<float> sorted(mixture.row(r).begin(), mixture.row(r).end());
    std::ranges::sort(sorted, std::greater());
    const double sum = static_cast<double>(sorted[0]) + sorted[1] + sorted[2];
    EXPECT_EQ(std::ranges::count_if(sparse.mixture.row(r), [](float weight) { return weight > 0; }), 3);
    for (std::size_t c = 0; c < sparse.columns.size(); ++c) {
      const float before = mixture.row(r)[sparse.columns[c]];
      EXPECT_FLOAT_EQ(sparse.mixture.row(r)[c], before < sorted[2] ? 0 : static_cast<float>(before / sum));
    }
  }
}

TEST(Keep, OfEqualWeightsTheFirstStay) {
  const SparseMixture sparse = keep_largest(matrix(2, 4, {0.25, 0.25, 0.25, 0.25, 0, 0.5, 0, 0.5}), 2);
  EXPECT_THAT(sparse.columns, ::testing::ElementsAre(0, 1, 3));
  EXPECT_THAT(sparse.mixture.cells(), ::testing::ElementsAre(0.5, 0.5, 0, 0, 0.5, 0.5));
}

TEST(Keep, AllOfThemChangesNothing) {
  const Matrix mixture = convex_mixture(5, 12, 2);
  for (const std::size_t keep : {0UL, 12UL, 99UL}) {
    const SparseMixture same = keep_largest(mixture, keep);
    EXPECT_TRUE(std::ranges::equal(same.mixture.cells(), mixture.cells())) << keep;
    EXPECT_EQ(same.columns.size(), 12U);
  }
}

TEST(Keep, AnAnchorOfFewerWeightsStaysAsItIs) {
  const float third = 1.0F / 3;
  const SparseMixture sparse = keep_largest(matrix(1, 6, {0, third, 0, third, third, 0}), 4);
  EXPECT_THAT(sparse.columns, ::testing::ElementsAre(1, 3, 4));
  EXPECT_THAT(sparse.mixture.cells(), ::testing::Each(third));
}

TEST(Keep, SignedMixturesAreRefused) {
  expect_error(
      Code::bad_argument,
      [] {
        (void)keep_largest(matrix(1, 3, {1.5, -1, 0.5}), 2);
      },
      "none is negative", "anchor 0");
  expect_error(
      Code::bad_argument,
      [] {
        (void)keep_largest(matrix(1, 3, {0, 0, 0}), 2);
      },
      "anchor 0", "keep all");
}

FitOptions options_with(const Method& method, std::size_t keep, Similarity similarity = Similarity::wip) {
  FitArguments options;
  options.method = method;
  options.similarity = similarity;
  options.anchors = 10;
  options.support = 80;
  if (keep > 0) options.keep = keep;
  options.param.epochs = 2;
  return fit_options(options);
}

class KeepInFit : public ::testing::TestWithParam<std::tuple<std::string_view, std::string_view>> {
 protected:
  void SetUp() override {
    if (method() == Method(ChosenRows{Choice::kmeans}) && !have_faiss()) GTEST_SKIP() << "this build has no FAISS";
  }
  [[nodiscard]] Method method() const { return parse_method(std::get<0>(GetParam())); }
  [[nodiscard]] FitOptions options(std::size_t keep) const {
    return options_with(method(), keep, parse_similarity(std::get<1>(GetParam())));
  }
  [[nodiscard]] static Matrix rows_of(const Matrix& x, const std::vector<std::int64_t>& ids) {
    Matrix rows(ids.size(), x.cols());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::ranges::copy(x.row(static_cast<std::size_t>(ids[i])), rows.row(i).begin());
    }
    return rows;
  }

  Matrix a_ = random_matrix(200, 8, 6);
  Matrix b_ = random_matrix(200, 5, 7);
  std::vector<Space> spaces_{space_of("a", a_), space_of("b", b_)};
};

TEST_P(KeepInFit, ShrinksTheSupportWithTheMixture) {
  const Bundle whole = fit(spaces_, options(0));
  const Bundle bundle = fit(spaces_, options(3));
  EXPECT_EQ(keep_of(bundle.method), 3U);
  expect_convex(bundle.mixture);
  for (std::size_t r = 0; r < 10; ++r) {
    EXPECT_LE(std::ranges::count_if(bundle.mixture.row(r), [](float weight) { return weight > 0; }), 3);
  }
  ASSERT_EQ(bundle.support_ids.size(), bundle.mixture.cols());
  EXPECT_LE(bundle.support_ids.size(), 30U);
  EXPECT_TRUE(std::ranges::includes(whole.support_ids, bundle.support_ids));
  EXPECT_EQ(bundle.targets.rows(), bundle.similarity == Similarity::wip ? bundle.support_ids.size() : 0);
}

TEST_P(KeepInFit, AsManyAsTheSupportChangesNothing) {
  const Bundle whole = fit(spaces_, options(0));
  const Bundle bundle = fit(spaces_, options(80));
  EXPECT_EQ(bundle.support_ids, whole.support_ids);
  EXPECT_TRUE(std::ranges::equal(bundle.mixture.cells(), whole.mixture.cells()));
  EXPECT_TRUE(std::ranges::equal(bundle.map("b")->weight().cells(), whole.map("b")->weight().cells()));
}

TEST_P(KeepInFit, TheRemainingRowsAreEnoughToAttach) {
  const Bundle bundle = fit(spaces_, options(3));
  const RelativeMap map = *bundle.map("a");
  const Matrix support = rows_of(a_, bundle.support_ids);
  const Attachment few = attach(bundle, space_of("few", support), {true, {}, {}});
  EXPECT_EQ(few.map->output_dim(), 10U);
  const Attachment all = attach(bundle, spaces_[0]);
  EXPECT_TRUE(std::ranges::equal(all.map->weight().cells(), map.weight().cells()));
  if (bundle.similarity != Similarity::cosine && bundle.similarity != Similarity::inner) return;
  // These need no statistics, so the anchors are all there is to know, whatever rows the space has.
  const double near = 1e-6 * test::largest(map.weight().cells());
  for (std::size_t i = 0; i < map.weight().cells().size(); ++i) {
    EXPECT_NEAR(few.map->weight().cells()[i], map.weight().cells()[i], near);
  }
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<std::string_view, std::string_view>>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::string(std::get<1>(info.param));
}
INSTANTIATE_TEST_SUITE_P(All, KeepInFit,
                         ::testing::Combine(::testing::Values("param", "random", "kmeans", "fps"),
                                            ::testing::ValuesIn(similarity_names())),
                         case_name);

TEST(Keep, TheBundleFileRemembersIt) {
  const TemporaryFolder folder;
  const Matrix x = random_matrix(200, 8, 6);
  const Bundle bundle = fit(std::vector{space_of("x", x)}, options_with(Param{}, 2));
  save_bundle(bundle, folder.file("x.kedge"));
  const Bundle loaded = load_bundle(folder.file("x.kedge"));
  EXPECT_EQ(keep_of(loaded.method), 2U);
  EXPECT_EQ(loaded.support_ids, bundle.support_ids);
  EXPECT_TRUE(std::ranges::equal(loaded.mixture.cells(), bundle.mixture.cells()));
}

TEST(Keep, OneAnchorOfOneRowCanBeAttached) {
  const Matrix x = random_matrix(50, 4, 6);
  FitOptions options = options_with(Param{}, 1);
  options.anchors = 1;
  options.support = 20;
  const Bundle bundle = fit(std::vector{space_of("x", x)}, options);
  ASSERT_EQ(bundle.support_ids.size(), 1U);
  EXPECT_EQ(bundle.mixture.row(0)[0], 1);
  const Matrix again = attach(bundle, space_of("again", x)).map->weight(), wanted = bundle.map("x")->weight();
  EXPECT_TRUE(std::ranges::equal(again.cells(), wanted.cells()));
}

TEST(Keep, MethodsWithSignedWeightsAreRefused) {
  for (const std::string_view method : {"consensus", "procrustes", "ridge", "cca"}) {
    FitArguments options;
    options.method = parse_method(method);
    options.keep = 3;
    expect_error(
        Code::bad_argument, [&] { require_own_options(options); }, method, "3 largest", "signed", "keep all");
  }
}

}  // namespace
}  // namespace kedge
