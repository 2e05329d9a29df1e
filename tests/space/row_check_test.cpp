// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <numeric>

namespace kedge {
namespace {

using test::random_matrix;
using test::space_of;
using test::TemporaryFolder;

constexpr std::size_t kRows = 700;

/// An encoder nobody trained: a random layer over what the inputs are, and noise of its own.
Matrix encode(const Matrix& inputs, std::size_t dim, unsigned seed, float noise = 0.3F) {
  const Matrix layer = random_matrix(inputs.cols(), dim, seed);
  Matrix result = random_matrix(inputs.rows(), dim, seed + 1000);
  for (std::size_t r = 0; r < inputs.rows(); ++r) {
    for (std::size_t c = 0; c < dim; ++c) {
      float sum = 0;
      for (std::size_t k = 0; k < inputs.cols(); ++k) sum += inputs.row(r)[k] * layer.row(k)[c];
      result.row(r)[c] = noise * result.row(r)[c] + std::tanh(sum / 3);
    }
  }
  return result;
}

/// Row n becomes row n + shift, round the end; in a part of the rows.
Matrix rolled(const Matrix& rows, std::size_t shift, RowRange where = {}) {
  Matrix result = rows;
  const std::size_t count = std::min(where.end, rows.rows()) - where.begin;
  for (std::size_t r = 0; r < count; ++r) {
    std::ranges::copy(rows.row(where.begin + r), result.row(where.begin + (r + shift) % count).begin());
  }
  return result;
}

Matrix picked(const Matrix& rows, std::span<const std::int64_t> ids) {
  Matrix result(ids.size(), rows.cols());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::ranges::copy(rows.row(static_cast<std::size_t>(ids[i])), result.row(i).begin());
  }
  return result;
}

struct Encoders {
  Matrix inputs = random_matrix(kRows, 20, 1);
  Matrix a = encode(inputs, 40, 2), b = encode(inputs, 60, 3), c = encode(inputs, 150, 4), d = encode(inputs, 50, 5);
};

FitOptions options_of(const Method& method, Similarity similarity) {
  FitOptions options;
  options.method = method;
  options.similarity = similarity;
  options.anchors = 30;
  if (std::holds_alternative<Param>(method)) std::get<Param>(options.method).epochs = 2;
  if (is_adapter(method) && !is_adapter(method, Pairwise::cca)) options.anchors.reset();
  return options;
}

class RowCheckOfMethod : public ::testing::TestWithParam<std::pair<Method, Similarity>> {};

TEST_P(RowCheckOfMethod, NoticesASourceThatIsOffByOneRowAndNoOther) {
  const Encoders made;
  const auto [method, similarity] = GetParam();
  const FitOptions options = options_of(method, similarity);
  const Matrix off = rolled(made.b, 1);
  std::vector<Space> right{space_of("a", made.a), space_of("b", made.b)};
  std::vector<Space> wrong{space_of("a", made.a), space_of("b", off)};
  if (!is_adapter(method)) {
    right.push_back(space_of("c", made.c));
    wrong.push_back(space_of("c", made.c));
  }
  for (const Attachment& space : fit(right, options).spaces()) {
    ASSERT_TRUE(space.row_check) << space.space();
    EXPECT_FALSE(space.row_check->suspicious()) << space.space();
    EXPECT_GT(space.row_check->found_first, 0.5) << space.space();
  }
  const Bundle bundle = fit(wrong, options);
  EXPECT_TRUE(bundle.space("b").row_check->near_chance());
  EXPECT_EQ(bundle.space("a").row_check->suspicious(), is_adapter(method));  // of two, nobody knows who is wrong
  const RowCheck told = *bundle.space("b").row_check;
  EXPECT_EQ(told.remedy, RowCheck::Remedy::shift);
  EXPECT_EQ(told.shift, 1);
  EXPECT_GT(told.found_first_then, 0.5);
  EXPECT_EQ(bundle.space("a").row_check->shift, is_adapter(method) ? -1 : 0);
  const std::vector<std::string> warnings = warnings_of_sources(bundle);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0],
              ::testing::StartsWith(is_adapter(method) ? "the rows of 'a' and 'b' do not match each other:"
                                                       : "the rows of 'b' do not match those of the others:"));
  EXPECT_THAT(warnings[0],
              ::testing::HasSubstr(is_adapter(method) ? "row n of 'b' belonged to row n - 1 of 'a'"
                                                      : "row n of 'b' belonged to row n - 1 of the others"));
}

TEST_P(RowCheckOfMethod, NoticesAnAttachedSpaceThatIsOff) {
  const Encoders made;
  const auto [method, similarity] = GetParam();
  const std::vector<Space> spaces{space_of("a", made.a), space_of("b", made.b)};
  const TemporaryFolder folder;
  save_bundle(fit(spaces, options_of(method, similarity)), folder.file("x.kedge"));
  const Bundle bundle = load_bundle(folder.file("x.kedge"));
  const Attachment right = attach(bundle, space_of("d", made.d));
  ASSERT_TRUE(right.row_check);
  EXPECT_FALSE(right.row_check->suspicious());

  const Matrix off = rolled(made.d, kRows - 2);
  const Attachment wrong = attach(bundle, space_of("d", off));
  EXPECT_TRUE(wrong.row_check->near_chance());
  EXPECT_EQ(wrong.row_check->shift, -2);
  const std::string told = explain(*wrong.row_check, "d");
  EXPECT_THAT(told, ::testing::HasSubstr("the rows of 'd' do not match"));
  EXPECT_THAT(told, ::testing::HasSubstr("row n + 2 of the others"));
}

INSTANTIATE_TEST_SUITE_P(
    EveryMethod, RowCheckOfMethod,
    ::testing::Values(std::pair<Method, Similarity>(Consensus{}, Similarity::wip),
                      std::pair<Method, Similarity>(Param{}, Similarity::wip),
                      std::pair<Method, Similarity>(ChosenRows{Choice::random}, Similarity::cosine),
                      std::pair<Method, Similarity>(ChosenRows{Choice::fps}, Similarity::euclidean),
                      std::pair<Method, Similarity>(ChosenRows{Choice::fps}, Similarity::inner),
                      std::pair<Method, Similarity>(Param{}, Similarity::cosine),
                      std::pair<Method, Similarity>(Adapter{Pairwise::ridge}, Similarity::wip),
                      std::pair<Method, Similarity>(Adapter{Pairwise::procrustes}, Similarity::inner),
                      std::pair<Method, Similarity>(Adapter{Pairwise::cca}, Similarity::wip)),
    [](const auto& one) {
      return std::string(to_string(one.param.first)) + "_" + std::string(to_string(one.param.second));
    });

TEST(RowCheck, DoesNotAccuseHonestEncodersThatAreWeakOrFew) {
  const Matrix inputs = random_matrix(1000, 20, 1);
  const std::vector<std::pair<std::size_t, float>> settings{{1000, 2.0F}, {300, 1.5F}, {100, 0.7F}, {50, 0.3F}};
  for (const auto& [rows, noise] : settings) {
    std::vector<std::int64_t> ids(rows);
    std::iota(ids.begin(), ids.end(), 0);
    for (unsigned seed = 0; seed < 5; ++seed) {
      const Matrix some = picked(inputs, ids);
      const Matrix a = encode(some, 60, 10 + seed, noise), b = encode(some, 80, 20 + seed, noise);
      const std::vector<Space> spaces{space_of("a", a), space_of("b", b)};
      for (const Attachment& space : fit(spaces, options_of(Consensus{}, Similarity::wip)).spaces()) {
        EXPECT_FALSE(space.row_check->suspicious())  // nor any block of their rows
            << rows << " rows, noise " << noise << ", seed " << seed << ": " << space.row_check->deviations;
      }
    }
  }
}

TEST(RowCheck, ShuffledRowsAreNoticedWhateverTheirNumber) {
  for (const std::size_t rows : {50U, 120U, 599U, 600U, 2000U}) {
    const Matrix a = encode(random_matrix(rows, 20, 1), 40, 2), b = encode(random_matrix(rows, 20, 7), 40, 3);
    const std::vector<Space> spaces{space_of("a", a), space_of("b", b)};
    for (const Attachment& space : fit(spaces, options_of(Consensus{}, Similarity::wip)).spaces()) {
      EXPECT_TRUE(space.row_check->near_chance()) << rows << ": " << space.row_check->deviations;
      EXPECT_EQ(space.row_check->remedy, RowCheck::Remedy::none) << rows;
    }
  }
}

TEST(RowCheck, KnowsSupportRowsThatWereSavedInTheOrderOfSortedIds) {
  const Encoders made;
  const std::vector<Space> spaces{space_of("a", made.a), space_of("b", made.b)};
  FitOptions options = options_of(Consensus{}, Similarity::wip);
  for (std::int64_t i = 0; i < 200; ++i) options.support_ids.push_back((i * 37) % 200 + 300);
  const Bundle bundle = fit(spaces, options);
  AttachOptions only_support;
  only_support.support_rows = true;
  const Matrix right = picked(made.d, options.support_ids);
  EXPECT_FALSE(attach(bundle, space_of("d", right), only_support).row_check->suspicious());
  std::ranges::sort(options.support_ids);
  const Matrix sorted = picked(made.d, options.support_ids);
  const Attachment wrong = attach(bundle, space_of("d", sorted), only_support);
  EXPECT_EQ(wrong.row_check->remedy, RowCheck::Remedy::sorted_ids);
  EXPECT_THAT(explain(*wrong.row_check, "d"), ::testing::HasSubstr("order of the sorted support ids"));
}

TEST(RowCheck, SaysThatItCannotTell) {
  const Encoders made;
  const FitOptions options = options_of(Consensus{}, Similarity::wip);
  EXPECT_FALSE(fit(std::vector{space_of("a", made.a)}, options).spaces()[0].row_check);
  const RowRange few{0, RowCheck::kLeastRows - 1};
  const std::vector<Space> spaces{space_of("a", made.a).with_rows(few), space_of("b", made.b).with_rows(few)};
  const Bundle bundle = fit(spaces, options);
  EXPECT_FALSE(bundle.spaces()[0].row_check);
  constexpr const char* kWhy = "could not be checked: 49 support rows are too few to tell";
  EXPECT_THAT(warnings_of_sources(bundle), ::testing::ElementsAre(::testing::HasSubstr(kWhy)));
  EXPECT_THAT(warnings_of_attached(bundle, attach(bundle, space_of("d", made.d).with_rows(few))),
              ::testing::ElementsAre(::testing::HasSubstr(kWhy)));
}

TEST(RowCheck, IsKeptInTheBundle) {
  const Encoders made;
  const Matrix off = rolled(made.b, 1);
  const std::vector<Space> spaces{space_of("a", made.a), space_of("b", off), space_of("c", made.c)};
  const Bundle before = fit(spaces, options_of(ChosenRows{Choice::fps}, Similarity::wip));
  const Bundle after = bundle_from_bytes(bundle_to_bytes(before), "x");
  const RowCheck was = before.space("b").row_check.value(), is = after.space("b").row_check.value();
  EXPECT_EQ(was.remedy, RowCheck::Remedy::shift);  // so that there is something to keep
  EXPECT_EQ(is.remedy, was.remedy);
  EXPECT_EQ(is.rows, was.rows);
  EXPECT_EQ(is.among, was.among);
  EXPECT_EQ(is.found_first, was.found_first);
  EXPECT_EQ(is.deviations, was.deviations);
  EXPECT_EQ(is.shift, was.shift);
  EXPECT_EQ(is.found_first_then, was.found_first_then);
  EXPECT_EQ(after.space("b").mixture()->r2, before.space("b").mixture()->r2);
}

TEST(RowCheck, KeepsABlockInTheBundleToo) {
  const Encoders made;
  const Matrix off = rolled(made.b, 1, {200, 400});
  const Bundle before =
      fit(std::vector{space_of("a", made.a), space_of("b", off), space_of("c", made.c), space_of("same", made.c)},
          options_of(ChosenRows{Choice::fps}, Similarity::wip));
  const Bundle after = bundle_from_bytes(bundle_to_bytes(before), "x");
  const RowCheck was = *before.space("b").row_check, is = *after.space("b").row_check;
  ASSERT_TRUE(was.block && is.block);
  EXPECT_EQ(is.block->rows.begin, was.block->rows.begin);
  EXPECT_EQ(is.block->rows.end, was.block->rows.end);
  EXPECT_EQ(is.block->found_first, was.block->found_first);
  EXPECT_EQ(after.space("same").row_check->same_as, "c");
  EXPECT_EQ(warnings_of_sources(after), warnings_of_sources(before));
}

struct Misplaced {
  RowRange rows;
  const char* told;
};

TEST(RowCheck, SaysWhichRowsOfAFileDoNotMatch) {
  const Encoders made;
  for (const auto& [rows, told] : std::vector<Misplaced>{{{350, RowRange::kEnd}, "from about row 3"},
                                                         {{630, RowRange::kEnd}, "from about row 6"},
                                                         {{0, 200}, "up to about row "},
                                                         {{300, 450}, "from about row "}}) {
    for (const std::size_t shift : {1U, 3U}) {
      const Matrix off = rolled(made.b, shift, rows);
      const std::vector<Space> three{space_of("a", made.a), space_of("b", off), space_of("c", made.c)};
      const Bundle bundle = fit(three, options_of(Consensus{}, Similarity::wip));
      EXPECT_FALSE(bundle.space("a").row_check->suspicious()) << told;
      EXPECT_FALSE(bundle.space("c").row_check->suspicious()) << told;
      const RowCheck check = *bundle.space("b").row_check;
      ASSERT_TRUE(check.block) << told;
      constexpr double kAbout = 15;
      EXPECT_NEAR(static_cast<double>(check.block->rows.begin), static_cast<double>(rows.begin), kAbout) << told;
      if (rows.end == RowRange::kEnd) {
        EXPECT_EQ(check.block->rows.end, rows.end) << told;
      } else {
        EXPECT_NEAR(static_cast<double>(check.block->rows.end), static_cast<double>(rows.end), kAbout) << told;
      }
      EXPECT_EQ(check.shift, static_cast<std::int64_t>(shift)) << told;
      const std::vector<std::string> warnings = warnings_of_sources(bundle);
      ASSERT_EQ(warnings.size(), 1U) << told;
      EXPECT_THAT(warnings[0], ::testing::StartsWith(told));
      EXPECT_THAT(warnings[0], ::testing::HasSubstr("the rows of 'b' do not match those of the others"));
    }
  }
}

TEST(RowCheck, SaysWhichRowsOfAnAttachedFileDoNotMatch) {
  const Encoders made;
  const std::vector<Space> spaces{space_of("a", made.a), space_of("b", made.b)};
  const Bundle bundle = fit(spaces, options_of(Consensus{}, Similarity::wip));
  const Matrix off = rolled(made.d, 1, {350, RowRange::kEnd});
  const Attachment wrong = attach(bundle, space_of("d", off));
  ASSERT_TRUE(wrong.row_check->block);
  EXPECT_EQ(wrong.row_check->shift, 1);
  EXPECT_THAT(warnings_of_attached(bundle, wrong), ::testing::ElementsAre(::testing::StartsWith("from about row 3")));
}

TEST(RowCheck, BlamesOnlyThoseThatDifferFromMost) {
  const Encoders made;
  const Matrix b = rolled(made.b, 1), c = rolled(made.c, 40), d = rolled(made.d, 1);
  const FitOptions options = options_of(Consensus{}, Similarity::wip);
  const Matrix weak = encode(made.inputs, 40, 9, 1.2F);
  const std::vector<Space> most{space_of("weak", weak), space_of("off", b), space_of("c", made.c),
                                space_of("d", made.d)};
  EXPECT_THAT(warnings_of_sources(fit(most, options)),
              ::testing::ElementsAre(::testing::StartsWith("the rows of 'off' do not match those of the others")));
  const std::vector<Space> none{space_of("a", made.a), space_of("b", b), space_of("c", c)};
  EXPECT_THAT(warnings_of_sources(fit(none, options)),
              ::testing::ElementsAre(::testing::StartsWith("the rows of 'a', 'b' and 'c' do not match one another")));
  const std::vector<Space> halves{space_of("a", made.a), space_of("b", b), space_of("c", made.c), space_of("d", d)};
  EXPECT_THAT(
      warnings_of_sources(fit(halves, options)),
      ::testing::ElementsAre(::testing::StartsWith("the rows of 'a', 'b', 'c' and 'd' do not match one another")));
}

TEST(RowCheck, NoticesRowsUnderTwoNames) {
  const Encoders made;
  const Matrix copy = made.a;
  const std::vector<Space> spaces{space_of("a", made.a), space_of("b", made.b), space_of("again", copy)};
  const Bundle bundle = fit(spaces, options_of(Consensus{}, Similarity::wip));
  EXPECT_THAT(warnings_of_sources(bundle),
              ::testing::ElementsAre(::testing::StartsWith("'a' and 'again' hold the same rows")));
}

/// A source with some rows that cannot be read.
class BrokenRows : public RowSource {
 public:
  BrokenRows(const Matrix& rows, std::size_t readable) : rows_(view_rows(rows.view(), "broken")), readable_(readable) {}
  [[nodiscard]] std::size_t rows() const override { return rows_->rows(); }
  [[nodiscard]] std::size_t cols() const override { return rows_->cols(); }
  [[nodiscard]] const std::string& label() const override { return rows_->label(); }

 private:
  void copy_rows(std::size_t first, MatrixView<float> out) const override { checked(first, out); }
  void copy_rows(std::size_t first, MatrixView<double> out) const override { checked(first, out); }
  template <class T>
  void checked(std::size_t first, MatrixView<T> out) const {
    if (first + out.rows > readable_) throw Error(Code::failed, "the disk is gone");
    rows_->read(first, out);
  }
  std::shared_ptr<const RowSource> rows_;
  std::size_t readable_;
};

TEST(RowCheck, DoesNotHideThatAFileCannotBeRead) {
  const Encoders made;
  const RowRange some{0, kRows - 10};
  const std::vector<Space> spaces{space_of("a", made.a).with_rows(some), space_of("b", made.b).with_rows(some)};
  const Bundle bundle = fit(spaces, options_of(Consensus{}, Similarity::wip));
  const Matrix off = rolled(made.d, 1);
  const Space broken("d", std::make_shared<BrokenRows>(off, some.end), some);
  EXPECT_THROW((void)attach(bundle, broken), Error);
}

TEST(RowCheck, PercentsRoundToTheWholeOnlyWhereNothingIsMissing) {
  EXPECT_EQ(percent(1), "100 %");
  EXPECT_EQ(percent(0.9997), "99.9 %");
  EXPECT_EQ(percent(0.002), "0.2 %");
}

/// The mean squared error of new rows, relative to the variance of what the sources say of them.
double r2_on_new_rows(const Bundle& bundle, const Matrix& a, const Matrix& b, const Matrix& d) {
  const Matrix ra = bundle.map("a")->apply(a.view()), rb = bundle.map("b")->apply(b.view());
  const Matrix rd = bundle.map("d")->apply(d.view());
  double sum = 0;
  for (std::size_t c = 0; c < ra.cols(); ++c) {
    double mean = 0, error = 0, variance = 0;
    for (std::size_t r = 0; r < ra.rows(); ++r) mean += (ra.row(r)[c] + rb.row(r)[c]) / 2;
    mean /= static_cast<double>(ra.rows());
    for (std::size_t r = 0; r < ra.rows(); ++r) {
      const double truth = (ra.row(r)[c] + rb.row(r)[c]) / 2;
      error += std::pow(truth - rd.row(r)[c], 2);
      variance += std::pow(truth - mean, 2);
    }
    sum += std::max(-1.0, 1 - error / variance);
  }
  return sum / static_cast<double>(ra.cols());
}

TEST(MixtureFit, EstimatesWhatNewRowsGet) {
  const Matrix inputs = random_matrix(2 * kRows, 20, 1);
  const Matrix a = encode(inputs, 40, 2), b = encode(inputs, 60, 3), d = encode(inputs, 50, 5);
  const RowRange old{0, kRows}, fresh{kRows, 2 * kRows};
  const std::vector<Space> spaces{space_of("a", a).with_rows(old), space_of("b", b).with_rows(old)};
  for (const Method& method : std::vector<Method>{ChosenRows{Choice::random}, ChosenRows{Choice::fps}, Param{}}) {
    FitOptions options = options_of(method, Similarity::wip);
    if (std::holds_alternative<Param>(method)) std::get<Param>(options.method).epochs = 60;
    Bundle bundle = fit(spaces, options);
    EXPECT_TRUE(bundle.space("a").mixture());
    bundle = bundle.with(attach(bundle, space_of("d", d).with_rows(old)));
    const double truth =
        r2_on_new_rows(bundle, space_of("a", a).with_rows(fresh).read_all(),
                       space_of("b", b).with_rows(fresh).read_all(), space_of("d", d).with_rows(fresh).read_all());
    EXPECT_NEAR(bundle.space("d").mixture()->mean_r2, truth, 0.1) << to_string(method);
  }
}

TEST(Anchors, DefaultToWhatThereIs) {
  const Encoders made;
  const std::vector<Space> spaces{space_of("a", made.a), space_of("b", made.b)};
  const Bundle bundle = fit(spaces, FitOptions());
  EXPECT_LE(bundle.anchors().mixture.rows(), 100U);  // the spaces have no more directions
  EXPECT_GE(bundle.anchors().mixture.rows(), 20U);   // which is what their inputs have
  for (std::size_t r = 0; r < bundle.anchors().mixture.rows(); ++r) {
    EXPECT_TRUE(std::ranges::any_of(bundle.anchors().mixture.row(r), [](float weight) { return weight != 0; })) << r;
  }
  FitOptions few;
  few.method = ChosenRows{Choice::random};
  few.support = 25;
  EXPECT_EQ(fit(spaces, few).anchors().mixture.rows(), 25U);
}

}  // namespace
}  // namespace kedge
