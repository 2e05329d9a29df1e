// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"
#include "support.h"

#include <kedge/fit.h>
#include <kedge/metrics.h>
#include <kedge/translate.h>

#include <algorithm>
#include <cmath>

namespace kedge::test {
namespace {

constexpr std::size_t kRows = 500;

/// Views of the same hidden causes. In some, rows that are evenly spread have gone round.
struct Views {
  explicit Views(std::size_t count = 4) {
    const Matrix hidden = random_matrix(kRows, 12, 1);
    for (unsigned i = 0; i < count; ++i) {
      const Matrix mix = random_matrix(12, 18 + i, 10 + i);
      Matrix& x = right.emplace_back(random_matrix(kRows, 18 + i, 20 + i));
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t c = 0; c < x.cols(); ++c) {
          x.row(r)[c] = 3 + 0.6F * x.row(r)[c];
          for (std::size_t k = 0; k < 12; ++k) x.row(r)[c] += hidden.row(r)[k] * mix.row(k)[c];
        }
      }
    }
    given = right;
  }
  void turn(std::size_t view, std::size_t rows, std::size_t by = 1) {
    const auto place = [&](std::size_t i) { return i % rows * kRows / rows; };
    for (std::size_t i = 0; i < rows; ++i) {
      std::ranges::copy(right[view].row(place(i + by)), given[view].row(place(i)).begin());
    }
  }
  [[nodiscard]] Space space(std::size_t i) const {
    return space_of(std::string(1, static_cast<char>('a' + i)), given[i]);
  }
  [[nodiscard]] std::vector<Space> spaces(std::size_t count) const {
    std::vector<Space> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(space(i));
    return all;
  }

  std::vector<Matrix> right, given;
};

const KernelOptions kKernel{1, 1e-3, 0.5};  // choosing takes long

FitOptions options_for(const Method& method, bool robust) {
  FitOptions options;
  options.method = method;
  options.robust = robust;
  options.anchors = 12;
  if (is_adapter(method, Pairwise::kernel)) options.kernel = kKernel;
  return options;
}

/// The share of the second view's variance that a translation of the first does not meet, on the right rows.
double missed(const Bundle& bundle, const Views& views) {
  const Matrix found = Translator(bundle, "a", "b").apply(views.right[0].view());
  const auto wanted = as_eigen(views.right[1].view());
  const Eigen::RowVectorXf mean = wanted.colwise().mean();
  return (as_eigen(found.view()) - wanted).squaredNorm() / (wanted.rowwise() - mean).squaredNorm();
}

double mrr(const Bundle& bundle, const Views& views, std::size_t view) {
  const std::string name(1, static_cast<char>('a' + view));
  return compare(bundle.map("a")->apply(views.right[0].view()).view(),
                 bundle.map(name)->apply(views.right[view].view()).view())
      .mrr;
}

TEST(Robust, APairLosesItsWrongRowsAndLittleElse) {
  for (const Pairwise pairwise : {Pairwise::ridge, Pairwise::kernel, Pairwise::procrustes}) {
    const Method method = Adapter{pairwise};
    Views views(2);
    const double clean = missed(fit(views.spaces(2), options_for(method, false)), views);
    EXPECT_NEAR(missed(fit(views.spaces(2), options_for(method, true)), views), clean, 0.01);
    views.turn(1, kRows / 2);
    const double bent = missed(fit(views.spaces(2), options_for(method, false)), views);
    const Bundle bundle = fit(views.spaces(2), options_for(method, true));
    const double robust = missed(bundle, views);
    EXPECT_LT(robust, clean + 0.25 * (bent - clean)) << to_string(method);
    const WrongPairs wrong = bundle.space("b").wrong_pairs.value();
    EXPECT_TRUE(wrong.left_out);
    EXPECT_EQ(wrong.pairs, kRows);
    EXPECT_EQ(wrong.rows.size() + bundle.anchors().support_ids.size(), kRows);
    EXPECT_GT(std::ranges::count_if(wrong.rows, [](std::int64_t row) { return row % 2 == 0; }), 0.8 * kRows / 2);
  }
}

TEST(Robust, AConsensusKeepsTheSpacesThatAreRightInARow) {
  Views views;
  views.turn(1, 3 * kRows / 4);
  views.turn(3, 3 * kRows / 4, 2);
  for (const AttachBy by : {AttachBy::ridge, AttachBy::kernel}) {
    FitOptions options = options_for(Consensus{}, false);
    options.attach_by = by;
    if (by == AttachBy::kernel) options.kernel = kKernel;
    const Bundle bent = fit(views.spaces(4), options);
    options.robust = true;
    const Bundle robust = fit(views.spaces(4), options);
    EXPECT_GT(robust.anchors().support_ids.size(), 0.9 * kRows);
    for (const std::size_t view : {1U, 2U, 3U}) {
      EXPECT_GT(mrr(robust, views, view), 0.9) << view;
    }
    for (const std::size_t view : {1U, 3U}) {
      EXPECT_GT(mrr(robust, views, view), mrr(bent, views, view) + 0.05) << view;
    }
    EXPECT_LT(robust.space("c").wrong_pairs.value().share, 0.1);
    EXPECT_NEAR(robust.space("d").wrong_pairs.value().share, 0.75, 0.1);
  }
}

TEST(Robust, AnAttachedSpaceLosesItsWrongRows) {
  Views views;
  const Bundle bundle = fit(views.spaces(3), options_for(Consensus{}, false));
  views.turn(3, kRows / 2);
  for (const AttachBy by : {AttachBy::ridge, AttachBy::kernel}) {
    AttachOptions options;
    options.by = by;
    if (by == AttachBy::kernel) options.kernel = kKernel;
    const double bent = mrr(bundle.with(attach(bundle, views.space(3), options)), views, 3);
    options.robust = true;
    const Bundle robust = bundle.with(attach(bundle, views.space(3), options));
    EXPECT_GT(mrr(robust, views, 3), std::max(bent, 0.95));
    EXPECT_NEAR(robust.space("d").wrong_pairs.value().share, 0.5, 0.1);
  }
}

TEST(Robust, WrongPairsAreToldOfAndRightOnesAreNot) {
  Views views(2);
  EXPECT_TRUE(warnings_of_sources(fit(views.spaces(2), options_for(Adapter{Pairwise::ridge}, false))).empty());
  views.turn(1, kRows / 10);
  const auto warnings = warnings_of_sources(fit(views.spaces(2), options_for(Adapter{Pairwise::ridge}, false)));
  ASSERT_EQ(warnings.size(), 1);
  EXPECT_NE(warnings.front().find("look wrong, rows "), std::string::npos) << warnings.front();
  EXPECT_TRUE(warnings_of_sources(fit(views.spaces(2), options_for(Adapter{Pairwise::ridge}, true))).empty());
}

TEST(Robust, WhatItCannotDoIsRefused) {
  const Views views(2);
  FitOptions options = options_for(ChosenRows{}, true);
  expect_error(
      Code::bad_argument, [&] { (void)fit(views.spaces(2), options); }, "robust");
  options = options_for(Consensus{}, true);
  expect_error(
      Code::bad_argument, [&] { (void)fit(views.spaces(1), options); }, "robust");
  std::get<Consensus>(options.method).refinement.epochs = 2;
  expect_error(
      Code::bad_argument, [&] { (void)fit(views.spaces(2), options); }, "refinement");
  Views shuffled(2);
  shuffled.turn(1, kRows);
  expect_error(
      Code::bad_argument, [&] { (void)fit(shuffled.spaces(2), options_for(Consensus{}, true)); }, "look right");
  AttachOptions by_mixture;
  by_mixture.by = AttachBy::mixture;
  by_mixture.robust = true;
  const Bundle bundle = fit(views.spaces(2), options_for(Consensus{}, false));
  expect_error(
      Code::bad_argument, [&] { (void)attach(bundle, views.space(1), by_mixture); }, "mixture");
}

}  // namespace
}  // namespace kedge::test
