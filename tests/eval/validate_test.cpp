// SPDX-License-Identifier: Apache-2.0
#include "support.h"

namespace kedge {
namespace {

using test::expect_error;
using test::random_matrix;
using test::space_of;

/// Four views of the same causes; the last sees nothing of them.
std::vector<Matrix> make_views() {
  const Matrix hidden = random_matrix(400, 6, 1);
  std::vector<Matrix> views;
  for (unsigned i = 0; i < 4; ++i) {
    const Matrix mix = random_matrix(6, 9, 10 + i);
    Matrix x = random_matrix(400, 9, 20 + i);
    for (std::size_t r = 0; r < 400; ++r) {
      for (std::size_t c = 0; c < 9; ++c) {
        x.row(r)[c] *= 0.2F;
        for (std::size_t k = 0; k < 6 && i < 3; ++k) x.row(r)[c] += hidden.row(r)[k] * mix.row(k)[c];
      }
    }
    views.push_back(std::move(x));
  }
  return views;
}

FitOptions small_consensus() {
  FitOptions options;
  options.method = Consensus{};
  options.anchors = 8;
  options.support = 250;
  return options;
}

TEST(Validate, TellsEncodersThatFitFromThoseThatDoNot) {
  const std::vector<Matrix> views = make_views();
  const std::vector spaces{space_of("a", views[0]), space_of("b", views[1]), space_of("c", views[2]),
                           space_of("noise", views[3])};
  const std::vector<HeldOutScore> scores = validate(spaces, small_consensus());
  ASSERT_EQ(scores.size(), 4U);
  EXPECT_EQ(scores[3].space, "noise");
  EXPECT_EQ(scores[0].rows, 40U);  // every tenth
  EXPECT_LT(scores[3].mrr, 0.2);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_GT(scores[i].mrr, 0.5) << i;
}

TEST(Validate, WorksForOtherMethodsAndMoreSupportThanIsLeft) {
  const std::vector<Matrix> views = make_views();
  const std::vector spaces{space_of("a", views[0]), space_of("b", views[1]), space_of("c", views[2])};
  FitOptions options = small_consensus();
  options.method = ChosenRows{Choice::random};
  options.support = 400;  // 360 are left
  const std::vector<HeldOutScore> scores = validate(spaces, options);
  EXPECT_EQ(scores.size(), 3U);
  for (const HeldOutScore& score : scores) EXPECT_GT(score.mrr, 0.5);
}

/// Rows that are left to fit on, or those that are scored.
Matrix part_of(const Matrix& rows, bool scored) {
  std::vector<float> cells;
  for (std::size_t r = 0; r < rows.rows(); ++r) {
    if ((r % HeldOutRows::kStride == HeldOutRows::kStride - 1) != scored) continue;
    cells.insert(cells.end(), rows.row(r).begin(), rows.row(r).end());
  }
  Matrix part(cells.size() / rows.cols(), rows.cols());
  std::ranges::copy(cells, part.cells().begin());
  return part;
}

/// The nMSE of the last of three views, by hand.
double attach_and_compare(const std::vector<Matrix>& views, const FitOptions& options,
                          const AttachOptions& attach_options) {
  std::vector<Matrix> learned;
  for (std::size_t i = 0; i < 3; ++i) learned.push_back(part_of(views[i], false));
  const Bundle bundle = fit({{space_of("a", learned[0]), space_of("b", learned[1])}}, options);
  const Attachment attached = attach(bundle, space_of("c", learned[2]), attach_options);
  const Matrix rr = attached.map->apply(part_of(views[2], true).view());
  const Matrix of_a = bundle.map("a")->apply(part_of(views[0], true).view());
  const Matrix of_b = bundle.map("b")->apply(part_of(views[1], true).view());
  return (compare(of_a.view(), rr.view()).nmse + compare(of_b.view(), rr.view()).nmse) / 2;
}

void expect_scored(const std::vector<Matrix>& views, const FitOptions& options, const AttachOptions& attach_options) {
  const std::vector spaces{space_of("a", views[0]), space_of("b", views[1]), space_of("c", views[2])};
  const double expected = attach_and_compare(views, options, attach_options);
  const double otherwise = attach_and_compare(views, options, {});
  EXPECT_GT(std::abs(otherwise - expected), 0.01 * expected) << "the options make no difference";
  EXPECT_NEAR(validate(spaces, options).back().nmse, expected, 1e-5 * expected);
}

TEST(Validate, AttachesTheSpaceAsTheOptionsSay) {
  const std::vector<Matrix> views = make_views();
  FitOptions options = small_consensus();
  options.ridge = 10;
  AttachOptions by_ridge;
  by_ridge.ridge = options.ridge;
  expect_scored(views, options, by_ridge);

  options = small_consensus();
  options.attach_by = AttachBy::kernel;
  options.kernel = {32, 1e-6, 1};
  AttachOptions by_kernel;
  by_kernel.kernel = options.kernel;
  expect_scored(views, options, by_kernel);
}

TEST(Validate, KeepsFromTheSpaceWhatIsOnlyForAnAdapter) {
  const std::vector<Matrix> views = make_views();
  const std::vector spaces{space_of("a", views[0]), space_of("b", views[1]), space_of("c", views[2])};
  FitOptions options;
  options.method = Adapter{Pairwise::kernel};
  options.kernel.width = 4;
  options.attach_by = AttachBy::ridge;
  EXPECT_EQ(validate(spaces, options).size(), 3U);
  options = {};
  options.method = Adapter{Pairwise::ridge};
  options.ridge = 1;
  options.attach_by = AttachBy::kernel;
  EXPECT_EQ(validate(spaces, options).size(), 3U);
}

TEST(Validate, NeedsThreeSpacesAndEnoughRows) {
  const std::vector<Matrix> views = make_views();
  const std::vector two{space_of("a", views[0]), space_of("b", views[1])};
  expect_error(
      Code::bad_argument, [&] { (void)validate(two, small_consensus()); }, "three or more", "2 were given");
  std::vector<Space> few;
  for (std::size_t i = 0; i < 3; ++i) {
    few.emplace_back(std::string(1, static_cast<char>('a' + i)), view_rows(views[i].view(), "x"), RowRange{0, 15});
  }
  expect_error(
      Code::bad_argument, [&] { (void)validate(few, small_consensus()); }, "15 rows are too few");
}

}  // namespace
}  // namespace kedge
