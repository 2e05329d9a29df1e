// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <gtest/gtest.h>
#include <kedge/kedge.h>

#include <algorithm>
#include <cmath>

namespace kedge::test {
namespace {

/// Three views of the same hidden causes.
std::vector<Matrix> views(std::size_t rows) {
  const Matrix hidden = random_matrix(rows, 6, 1);
  std::vector<Matrix> all;
  for (unsigned i = 0; i < 4; ++i) {
    const Matrix mix = random_matrix(6, 7 + i, 10 + i);
    Matrix& x = all.emplace_back(random_matrix(rows, 7 + i, 20 + i));
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < x.cols(); ++c) {
        x.row(r)[c] = 3 + 0.3F * x.row(r)[c];
        for (std::size_t k = 0; k < 6; ++k) x.row(r)[c] += hidden.row(r)[k] * mix.row(k)[c];
      }
    }
  }
  return all;
}

class FromMoments : public ::testing::Test {
 protected:
  FromMoments() : views_(views(900)) {
    for (std::int64_t id = 3; id < 900; id += 5) ids_.push_back(id);
    std::ranges::rotate(ids_, ids_.begin() + 40);  // any order will do
  }
  [[nodiscard]] std::vector<Space> sources() const {
    return {space_of("a", views_[0]), space_of("b", views_[1]), space_of("c", views_[2])};
  }
  [[nodiscard]] FitOptions options(const Method& method, bool ids = true) const {
    FitOptions options;
    options.method = method;
    options.anchors = 5;
    if (ids) options.support_ids = ids_;
    return options;
  }
  /// Of seven uneven shards, the last first.
  [[nodiscard]] Moments sharded(std::span<const std::size_t> which) const {
    std::vector<Moments::Part> parts;
    for (const std::size_t i : which) parts.push_back({std::string(1, static_cast<char>('a' + i)), views_[i].cols()});
    Moments all;
    std::size_t end = 900;
    for (const std::size_t rows : {1UL, 500UL, 7UL, 92UL, 250UL, 49UL, 1UL}) {
      std::vector<MatrixView<const float>> blocks;
      for (const std::size_t i : which) blocks.push_back(views_[i].view().middle_rows(end - rows, rows));
      Moments shard(parts);
      shard.add(blocks);
      all.merge(shard);
      end -= rows;
    }
    return all;
  }
  [[nodiscard]] SupportRows support(std::size_t spaces) const {
    SupportRows support{ids_, {}};
    for (std::size_t i = 0; i < spaces; ++i) support.rows.push_back(space_of("x", views_[i]).gather(ids_));
    return support;
  }

  std::vector<Matrix> views_;
  std::vector<std::int64_t> ids_;
};

void expect_same_maps(const Bundle& found, const Bundle& expected) {
  ASSERT_EQ(found.spaces().size(), expected.spaces().size());
  for (const Attachment& space : expected.spaces()) {
    const auto weight = space.map->weight().cells();
    const double size = largest(weight);
    const auto same = found.map(space.space());
    ASSERT_EQ(same->weight().cells().size(), weight.size());
    for (std::size_t i = 0; i < weight.size(); ++i) ASSERT_NEAR(same->weight().cells()[i], weight[i], 1e-6 * size);
    for (std::size_t i = 0; i < space.map->bias().size(); ++i) {
      ASSERT_NEAR(same->bias()[i], space.map->bias()[i], 1e-6 * std::max(1.0, largest(space.map->bias())));
    }
  }
}

TEST_F(FromMoments, ShardsMakeTheBundleThatAllRowsMake) {
  const std::vector<std::size_t> three{0, 1, 2};
  for (const Method& method : std::vector<Method>{Consensus{}, ChosenRows{Choice::random}, ChosenRows{Choice::fps}}) {
    for (const Similarity similarity : {Similarity::wip, Similarity::cosine, Similarity::euclidean}) {
      FitOptions whole = options(method), parts = options(method, false);
      whole.similarity = parts.similarity = similarity;
      const Bundle expected = fit(sources(), whole);
      const Bundle found = fit(FitInput{{sharded(three)}, support(3)}, parts);
      expect_same_maps(found, expected);
      EXPECT_EQ(found.anchors().support_ids, expected.anchors().support_ids);
      EXPECT_EQ(found.made().sources, expected.made().sources);
      EXPECT_NO_THROW((void)bundle_from_bytes(bundle_to_bytes(found), "bytes"));
      ASSERT_TRUE(found.spaces()[0].row_check);
      EXPECT_FALSE(found.spaces()[0].row_check->near_chance());
    }
  }
}

TEST_F(FromMoments, AdaptersAndRulesOfShrinkageDoToo) {
  const std::vector<std::size_t> two{0, 1};
  const std::vector<Space> pair{space_of("a", views_[0]), space_of("b", views_[1])};
  for (const Method& method :
       std::vector<Method>{Adapter{Pairwise::ridge}, Adapter{Pairwise::procrustes}, Adapter{Pairwise::cca}}) {
    expect_same_maps(fit(FitInput{{sharded(two)}, support(2)}, options(method, false)), fit(pair, options(method)));
  }
  for (const ShrinkageRule rule : {ShrinkageRule::ledoit_wolf, ShrinkageRule::oas}) {
    FitOptions whole = options(Consensus{}), parts = options(Consensus{}, false);
    whole.shrinkage_rule = parts.shrinkage_rule = rule;
    expect_same_maps(fit(FitInput{{sharded(two)}, support(2)}, parts), fit(pair, whole));
  }
}

TEST_F(FromMoments, AttachDoesToo) {
  const Bundle bundle = fit(sources(), options(Consensus{}));
  const Attachment expected = attach(bundle, space_of("d", views_[3]));
  const std::vector<std::size_t> last{3};
  const Matrix64 rows = space_of("d", views_[3]).gather(ids_);
  const Attachment found = attach(bundle, AttachInput{sharded(last), rows});
  for (std::size_t i = 0; i < expected.map->weight().cells().size(); ++i) {
    ASSERT_NEAR(found.map->weight().cells()[i], expected.map->weight().cells()[i],
                1e-6 * largest(expected.map->weight().cells()));
  }
  const Attachment by_file = attach(bundle, read_input(bundle, {space_of("d", views_[3]), sharded(last)}));
  EXPECT_EQ(by_file.map->space(), "d");
  EXPECT_NEAR(by_file.ridge()->mean_r2, expected.ridge()->mean_r2, 1e-6);
}

TEST_F(FromMoments, ParamLearnsFromASampleOfRows) {
  FitOptions sampled = options(Param{}, false);
  std::get<Param>(sampled.method).epochs = 2;
  std::get<Param>(sampled.method).batch = 64;
  sampled.support = 100;
  std::vector<Space> sample;
  for (const Space& space : sources()) sample.push_back(space.with_rows(RowRange{0, 300}));
  const std::vector<std::size_t> three{0, 1, 2};
  const Bundle bundle = fit(read_input({sample, sharded(three)}, sampled), sampled);
  EXPECT_EQ(bundle.anchors().history.size(), 2U);
  EXPECT_EQ(bundle.anchors().support_ids.size(), 100U);
  EXPECT_TRUE(std::ranges::all_of(bundle.anchors().support_ids, [](std::int64_t id) { return id < 300; }));
}

TEST_F(FromMoments, RefusesWhatDoesNotFit) {
  const std::vector<std::size_t> three{0, 1, 2};
  const Moments moments = sharded(three);
  const auto fit_with = [&](const SupportRows& rows, auto change) {
    return [&, rows, change] {
      FitOptions changed = options(Consensus{}, false);
      change(changed);
      (void)fit(FitInput{{moments}, rows}, changed);
    };
  };
  const auto nothing = [](FitOptions&) {};
  expect_error(Code::bad_argument, fit_with(support(2), nothing), "3 space(s)", "support rows of 2");
  SupportRows bad = support(3);
  bad.rows[1] = Matrix64(5, 8);
  expect_error(Code::bad_argument, fit_with(bad, nothing), "'b'", "5 support rows");
  bad = support(3);
  bad.rows[1] = Matrix64(bad.ids.size(), 9);
  expect_error(Code::bad_argument, fit_with(bad, nothing), "'b'", "8 values", "have 9");
  bad = support(3);
  bad.rows[2].row(7)[0] = std::nan("");
  expect_error(Code::bad_argument, fit_with(bad, nothing), "'c'", "support row 7", "NaN");
  bad = support(3);
  bad.ids[1] = bad.ids[0];
  expect_error(Code::bad_argument, fit_with(bad, nothing), "more than once");
  bad.ids[1] = -4;
  expect_error(Code::bad_argument, fit_with(bad, nothing), "-4 is negative");
  expect_error(Code::bad_argument, fit_with(support(3), [](FitOptions& o) { o.method = Param{}; }),
               "param learns from batches", "sample");
  expect_error(Code::bad_argument,
               fit_with(support(3), [](FitOptions& o) { std::get<Consensus>(o.method).refinement.epochs = 3; }),
               "refinement learns from batches");
  expect_error(Code::bad_argument, fit_with(support(3), [](FitOptions& o) { o.support_select = SupportSelect::fps; }),
               "select the support by fps");
  expect_error(Code::bad_argument, fit_with(support(3), [](FitOptions& o) { o.support = 5; }), "a support of 5 rows");
  const Bundle bundle = fit(sources(), options(Consensus{}));
  const Matrix64 few(3, 7);
  expect_error(
      Code::bad_argument,
      [&] {
        (void)attach(bundle, AttachInput{moments, few});
      },
      "one space is attached at a time");
  expect_error(
      Code::bad_argument,
      [&] {
        (void)attach(bundle, AttachInput{moments.of("a"), few});
      },
      "180 support rows", "3 x 7");
}

TEST_F(FromMoments, IdsAndRowNumbersAreNotMixed) {
  const Bundle numbered = fit(sources(), options(Consensus{}));
  const Space last = space_of("d", views_[3]);
  std::vector<std::int64_t> ids(last.rows());  // every row number is the id of another row
  for (std::size_t row = 0; row < ids.size(); ++row) ids[row] = static_cast<std::int64_t>(ids.size() - 1 - row);
  expect_error(
      Code::bad_argument,
      [&] {
        (void)read_input(numbered, {last, {}, ids});
      },
      "'d'", "by row number");
  Moments moments{SupportDraw(numbered.anchors().support_ids)};
  add_moments(moments, {&last, 1}, ids);
  expect_error(
      Code::bad_argument,
      [&] {
        (void)read_input(numbered, {{}, moments});
      },
      "'d'", "by row number");
  const Bundle drawn = fit(read_input({sources(), {}, ids}, options(Consensus{}, false)), options(Consensus{}, false));
  EXPECT_EQ(attach(drawn, read_input(drawn, {last, {}, ids})).space(), "d");
  expect_error(
      Code::bad_argument, [&] { (void)attach(drawn, last); }, "'d'", "drawn by id");
}

TEST_F(FromMoments, SupportRowsAloneMeetTheMeanOfTheTargets) {
  // A support that is far from the rest, so that its mean differs from the mean of all rows.
  std::vector<std::int64_t> far(900);
  for (std::size_t i = 0; i < far.size(); ++i) far[i] = static_cast<std::int64_t>(i);
  std::ranges::sort(far, {}, [&](std::int64_t id) { return -views_[0].row(static_cast<std::size_t>(id))[0]; });
  far.resize(150);
  FitOptions off_centre = options(Consensus{}, false);
  off_centre.support_ids = far;
  const Bundle bundle = fit(sources(), off_centre);
  const Matrix64 rows = space_of("d", views_[3]).gather(far);
  Matrix support(rows.rows(), rows.cols());
  std::ranges::transform(rows.cells(), support.cells().begin(), [](double value) { return static_cast<float>(value); });
  AttachOptions alone;
  alone.support_rows = true;
  const Attachment attached = attach(bundle, space_of("d", support), alone);
  const Matrix rr = attached.map->apply(support.view());
  for (std::size_t a = 0; a < rr.cols(); ++a) {
    double found = 0, expected = 0, size = 0;
    for (std::size_t r = 0; r < rr.rows(); ++r) {
      found += rr.row(r)[a];
      expected += bundle.anchors().targets.row(r)[a];
      size += std::abs(bundle.anchors().targets.row(r)[a]);
    }
    EXPECT_NEAR(found, expected, 1e-4 * size) << a;
  }
}

}  // namespace
}  // namespace kedge::test
