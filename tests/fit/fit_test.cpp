// SPDX-License-Identifier: Apache-2.0
#include "compute/neighbors.h"
#include "support.h"

#include <algorithm>
#include <cmath>
#include <exception>

namespace kedge {
namespace {

using test::expect_convex;
using test::expect_error;
using test::largest;
using test::random_matrix;
using test::space_of;
using test::TemporaryFolder;

/// Correlated rows far from the origin, as embeddings are.
Matrix embeddings(std::size_t rows, std::size_t dim, unsigned seed) {
  const Matrix latent = random_matrix(rows, 6, 1);
  const Matrix mixing = random_matrix(6, dim, seed);
  Matrix x = random_matrix(rows, dim, seed + 100);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < dim; ++c) {
      x.row(r)[c] = 0.3F * x.row(r)[c] + 2;
      for (std::size_t k = 0; k < 6; ++k) x.row(r)[c] += latent.row(r)[k] * mixing.row(k)[c];
    }
  }
  return x;
}

/// x * a + shift, in double.
Matrix transformed(const Matrix& x, const Matrix& a, float shift) {
  Matrix y(x.rows(), a.cols());
  for (std::size_t r = 0; r < x.rows(); ++r) {
    for (std::size_t c = 0; c < a.cols(); ++c) {
      double sum = shift;
      for (std::size_t k = 0; k < x.cols(); ++k)
        sum += static_cast<double>(x.row(r)[k]) * static_cast<double>(a.row(k)[c]);
      y.row(r)[c] = static_cast<float>(sum);
    }
  }
  return y;
}

/// A random rotation: Gram-Schmidt on random rows.
Matrix rotation(std::size_t dim, unsigned seed) {
  Matrix q = random_matrix(dim, dim, seed);
  for (std::size_t i = 0; i < dim; ++i) {
    for (std::size_t pass = 0; pass < 2; ++pass) {
      for (std::size_t j = 0; j < i; ++j) {
        float dot = 0;
        for (std::size_t c = 0; c < dim; ++c) dot += q.row(i)[c] * q.row(j)[c];
        for (std::size_t c = 0; c < dim; ++c) q.row(i)[c] -= dot * q.row(j)[c];
      }
    }
    float length = 0;
    for (const float value : q.row(i)) length += value * value;
    for (float& value : q.row(i)) value /= std::sqrt(length);
  }
  return q;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    worst = test::worse(worst, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return worst;
}

Matrix rr_of(const Bundle& bundle, const std::string& name, const Matrix& x) {
  return bundle.map(name)->apply(x.view());
}

FitOptions small_options(const Method& method, Similarity similarity) {
  FitOptions options;
  options.method = method;
  options.similarity = similarity;
  options.anchors = 20;
  options.support = 100;
  if (std::holds_alternative<Param>(method)) std::get<Param>(options.method).epochs = 3;
  return options;
}

TEST(Fit, WipIsUnchangedByInvertibleAffineTransforms) {
  const Matrix x = embeddings(400, 12, 2);
  Matrix a = random_matrix(12, 12, 3);
  for (std::size_t i = 0; i < 12; ++i) a.row(i)[i] += 3;  // well away from singular
  const Matrix y = transformed(x, a, 5);
  FitOptions options = small_options(ChosenRows{Choice::random}, Similarity::wip);
  options.whitening = {0, 0};
  const Matrix rr_x = rr_of(fit(std::vector{space_of("s", x)}, options), "s", x);
  const Matrix rr_y = rr_of(fit(std::vector{space_of("s", y)}, options), "s", y);
  EXPECT_LT(largest_difference(rr_x.cells(), rr_y.cells()), 1e-4 * largest(rr_x.cells()));
}

TEST(Fit, CosineIsUnchangedByRotationAndScale) {
  const Matrix x = embeddings(300, 10, 4);
  Matrix y = transformed(x, rotation(10, 5), 0);
  for (float& value : y.cells()) value *= 7;
  const FitOptions options = small_options(ChosenRows{Choice::random}, Similarity::cosine);
  const Matrix rr_x = rr_of(fit(std::vector{space_of("s", x)}, options), "s", x);
  const Matrix rr_y = rr_of(fit(std::vector{space_of("s", y)}, options), "s", y);
  EXPECT_LT(largest_difference(rr_x.cells(), rr_y.cells()), 1e-5);
}

class EveryMethodAndSimilarity : public ::testing::TestWithParam<std::tuple<std::string_view, std::string_view>> {
 protected:
  void SetUp() override {
    if (method() == Method(ChosenRows{Choice::kmeans}) && !have_faiss()) GTEST_SKIP() << "this build has no FAISS";
  }
  [[nodiscard]] static Method method() { return parse_method(std::get<0>(GetParam())); }
  [[nodiscard]] static FitOptions options() {
    return small_options(method(), parse_similarity(std::get<1>(GetParam())));
  }
  Matrix a_ = embeddings(300, 8, 6);
  Matrix b_ = embeddings(300, 11, 7);
  std::vector<Space> spaces_{space_of("a", a_), space_of("b", b_)};
};

TEST_P(EveryMethodAndSimilarity, AttachOfASourceGivesTheSameMap) {
  const Bundle bundle = fit(spaces_, options());
  for (const Space& space : spaces_) {
    const RelativeMap again = *attach(bundle, space).map;
    const RelativeMap map = *bundle.map(space.name());
    // The consensus takes its statistics from all spaces at once: the same sums, perhaps rounded in another order.
    const double rounding = std::holds_alternative<Consensus>(bundle.made().method) ? 1e-6 : 0;
    EXPECT_LE(largest_difference(again.weight().cells(), map.weight().cells()),
              rounding * largest(map.weight().cells()));
    EXPECT_LE(largest_difference(again.bias(), map.bias()), rounding * largest(map.bias()));
  }
}

TEST_P(EveryMethodAndSimilarity, MixtureIsSharedAndRepeatable) {
  const Bundle bundle = fit(spaces_, options());
  const Bundle again = fit(spaces_, options());
  EXPECT_TRUE(std::ranges::equal(bundle.anchors().mixture.cells(), again.anchors().mixture.cells()));
  EXPECT_EQ(bundle.anchors().support_ids, again.anchors().support_ids);
  if (std::holds_alternative<Consensus>(bundle.made().method)) {
    ASSERT_LT(bundle.anchors().mixture.rows(), 19U);  // of 8 + 11 directions, those that are shared
  } else {
    ASSERT_EQ(bundle.anchors().mixture.rows(), 20U);
  }
  ASSERT_EQ(bundle.anchors().mixture.cols(), 100U);
  if (is_convex(bundle.made().method)) expect_convex(bundle.anchors().mixture);
}

TEST_P(EveryMethodAndSimilarity, TransformOfPermutedRowsIsThePermutedTransform) {
  const TemporaryFolder folder;
  const Bundle bundle = fit(spaces_, options());
  Matrix reversed(a_.rows(), a_.cols());
  for (std::size_t r = 0; r < a_.rows(); ++r) std::ranges::copy(a_.row(r), reversed.row(a_.rows() - 1 - r).begin());
  transform(*bundle.map("a"), space_of("a", a_), folder.file("forward.npy"));
  transform(*bundle.map("a"), space_of("a", reversed), folder.file("backward.npy"));
  const Matrix forward = Space("f", open_rows(folder.file("forward.npy"))).read_all();
  const Matrix backward = Space("b", open_rows(folder.file("backward.npy"))).read_all();
  for (std::size_t r = 0; r < a_.rows(); ++r) {
    EXPECT_LT(largest_difference(forward.row(r), backward.row(a_.rows() - 1 - r)), 1e-6 * largest(forward.cells()));
  }
}

std::vector<std::string_view> anchor_methods() {
  std::vector<std::string_view> names = method_names();
  std::erase_if(names, [](std::string_view name) { return is_adapter(parse_method(name)); });
  return names;
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<std::string_view, std::string_view>>& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::string(std::get<1>(info.param));
}
INSTANTIATE_TEST_SUITE_P(All, EveryMethodAndSimilarity,
                         ::testing::Combine(::testing::ValuesIn(anchor_methods()),
                                            ::testing::ValuesIn(similarity_names())),
                         case_name);

TEST(Fit, SupportIdsAreRowsOfTheFileNotOfTheRange) {
  const Matrix x = embeddings(300, 8, 6);
  const auto source = view_rows(x.view(), "x");
  const std::vector<Space> part{Space("x", source, {100, 250})};
  FitOptions options = small_options(ChosenRows{Choice::random}, Similarity::inner);
  options.support = 60;
  const Bundle drawn = fit(part, options);
  EXPECT_EQ(drawn.anchors().support_ids.size(), 60U);
  for (const std::int64_t id : drawn.anchors().support_ids) {
    EXPECT_GE(id, 100);
    EXPECT_LT(id, 250);
  }
  options.support.reset();
  options.anchors = 2;
  options.support_ids = {120, 110};
  const Bundle bundle = fit(part, options);
  for (std::size_t r = 0; r < 2; ++r) {  // one-hot mixtures: anchors are those very rows
    const auto row = static_cast<std::size_t>(bundle.anchors().mixture.row(r)[0] == 1 ? 120 : 110);
    EXPECT_TRUE(std::ranges::equal(bundle.map("x")->weight().row(r), x.row(row)));
  }
}

TEST(Fit, AttachFromSupportRowsUsesOnlyThose) {
  if (!have_faiss()) GTEST_SKIP() << "this build has no FAISS";
  const Matrix x = embeddings(300, 8, 6);
  FitOptions options = small_options(ChosenRows{Choice::kmeans}, Similarity::cosine);
  const Bundle bundle = fit(std::vector{space_of("x", x)}, options);
  Matrix support(100, 8);
  for (std::size_t i = 0; i < 100; ++i) {
    std::ranges::copy(x.row(static_cast<std::size_t>(bundle.anchors().support_ids[i])), support.row(i).begin());
  }
  const RelativeMap map = *attach(bundle, space_of("again", support), {true, {}, {}}).map;
  EXPECT_LT(largest_difference(map.weight().cells(), bundle.map("x")->weight().cells()),
            1e-6 * largest(map.weight().cells()));
  expect_error(
      Code::bad_file,
      [&] {
        (void)attach(bundle, space_of("all", x), {true, {}, {}});
      },
      "100 support rows", "300");
}

TEST(Fit, IsByConsensusUnlessToldOtherwise) {
  const Matrix x = embeddings(400, 8, 6);
  const Matrix y = embeddings(400, 5, 7);
  const std::vector<Space> spaces{space_of("x", x), space_of("y", y)};
  FitOptions options;
  const Bundle bundle = fit(spaces, options);
  EXPECT_TRUE(std::holds_alternative<Consensus>(bundle.made().method));
  options.method = Consensus{};
  EXPECT_TRUE(std::ranges::equal(fit(spaces, options).anchors().mixture.cells(), bundle.anchors().mixture.cells()));
}

TEST(Fit, RefusesWhatCannotWork) {
  const Matrix x = embeddings(50, 8, 6);
  const Matrix shorter = embeddings(49, 8, 6);
  const std::vector<Space> spaces{space_of("x", x)};
  const auto fit_with = [&](auto change) {
    return [&spaces, change] {
      FitOptions options;
      options.method = ChosenRows{Choice::random};
      options.anchors = 10;
      change(options);
      (void)fit(spaces, options);
    };
  };
  expect_error(Code::bad_argument, fit_with([](FitOptions& o) { o.support = 51; }), "support of 51", "only 50 rows");
  expect_error(Code::bad_argument, fit_with([](FitOptions& o) { o.anchors = 51; }), "51 anchors",
               "only 50 support rows");
  expect_error(Code::bad_argument, fit_with([](FitOptions& o) { o.support_ids = {1, 50}; }), "support id 50", "0:50");
  expect_error(Code::bad_argument, fit_with([](FitOptions& o) { o.support_ids = {1, -2}; }), "support id -2");
  expect_error(Code::bad_argument, fit_with([](FitOptions& o) {
                 o.support_ids = {3, 1, 3};
               }),
               "support id 3", "more than once");
  expect_error(Code::bad_argument, fit_with([](FitOptions& o) { o.whitening.shrinkage = 1.5; }), "shrinkage is 1.5");
  expect_error(
      Code::bad_file,
      [&] {
        (void)fit(std::vector{space_of("x", x), space_of("y", shorter)}, {});
      },
      "'x' has 50 rows", "'y' has 49");
  expect_error(
      Code::bad_argument,
      [&] {
        (void)fit(std::vector{space_of("x", x), space_of("x", x)}, {});
      },
      "two spaces are called 'x'");
  expect_error(
      Code::bad_argument, [&] { (void)fit(std::vector<Space>{}, {}); }, "no space");
}

TEST(Fit, StopsWhenProgressThrows) {
  const Matrix x = embeddings(100, 8, 6);
  struct Stop : std::exception {};
  const auto stop = [](const ProgressReport&) { throw Stop{}; };
  EXPECT_THROW(
      (void)fit(std::vector{space_of("x", x)}, small_options(ChosenRows{Choice::random}, Similarity::wip), stop), Stop);
}

}  // namespace
}  // namespace kedge
