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
  options.method = Method::consensus;
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
  options.method = Method::random;
  options.support = 400;  // 360 are left
  const std::vector<HeldOutScore> scores = validate(spaces, options);
  EXPECT_EQ(scores.size(), 3U);
  for (const HeldOutScore& score : scores) EXPECT_GT(score.mrr, 0.5);
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
