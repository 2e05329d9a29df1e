// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include "base/random.h"

#include <kedge/match.h>

#include <numeric>

namespace kedge {
namespace {

using test::expect_error;
using test::space_of;

constexpr std::size_t kRows = 400, kDim = 40;

/// What inputs have in common in all encoders: they lie in groups of unequal sizes.
Matrix latent_rows(std::size_t rows, std::uint64_t seed) {
  constexpr std::size_t kLatent = 12, kGroups = 40;
  Random groups(5), random(seed);
  Matrix centres(kGroups, kLatent), latent(rows, kLatent);
  for (float& cell : centres.cells()) cell = static_cast<float>(2 * groups.normal());
  for (std::size_t r = 0; r < rows; ++r) {
    const auto group = static_cast<std::size_t>(kGroups * random.uniform() * random.uniform()) % kGroups;
    for (std::size_t i = 0; i < kLatent; ++i) {
      latent.row(r)[i] = centres.row(group)[i] + static_cast<float>(random.normal());
    }
  }
  return latent;
}

/// An encoder: a linear map, and noise of its own.
Matrix encode(const Matrix& latent, std::uint64_t seed) {
  Random random(seed);
  Matrix weights(kDim, latent.cols()), rows(latent.rows(), kDim);
  for (float& cell : weights.cells()) cell = static_cast<float>(random.normal());
  for (std::size_t r = 0; r < rows.rows(); ++r) {
    for (std::size_t i = 0; i < kDim; ++i) {
      const auto weight = weights.row(i);
      rows.row(r)[i] = std::inner_product(weight.begin(), weight.end(), latent.row(r).begin(), 0.0F) + 3 +
                       0.1F * static_cast<float>(random.normal());
    }
  }
  return rows;
}

/// Row r of the first is row order[r] of the second.
struct Shuffled {
  Matrix first, second;
  std::vector<std::int64_t> order;

  [[nodiscard]] std::vector<std::int64_t> pairs(std::size_t count, std::size_t from = 0) const {
    std::vector<std::int64_t> pairs;
    for (std::size_t i = from; i < from + count; ++i) {
      pairs.insert(pairs.end(), {static_cast<std::int64_t>(i), order[i]});
    }
    return pairs;
  }
  [[nodiscard]] double right(const Match& match) const {
    double right = 0;
    for (std::size_t i = 0; i < match.pairs.size(); i += 2) {
      const auto row = static_cast<std::size_t>(match.pairs[i]);
      right += row < order.size() && order[row] == match.pairs[i + 1] ? 1 : 0;
    }
    return right;
  }
};

Shuffled shuffled(std::size_t first_rows, std::size_t second_rows, std::uint64_t seed = 1) {
  const Matrix latent = latent_rows(std::max(first_rows, second_rows), seed);
  Shuffled made{Matrix(first_rows, kDim), Matrix(second_rows, kDim), std::vector<std::int64_t>(second_rows)};
  const Matrix first = encode(latent, 100), second = encode(latent, 200);
  std::copy_n(first.cells().begin(), first_rows * kDim, made.first.cells().begin());
  const std::vector<std::size_t> places = Random(9).sample(second_rows, second_rows);
  for (std::size_t r = 0; r < second_rows; ++r) {
    made.order[r] = static_cast<std::int64_t>(places[r]);
    std::ranges::copy(second.row(r), made.second.row(places[r]).begin());
  }
  return made;
}

Match match_of(const Shuffled& data, const MatchOptions& options = {}) {
  return match(space_of("first", data.first), space_of("second", data.second), options);
}

TEST(Match, FindsThePairsOfShuffledSpacesWithoutAnyAndTheSameWithAnyThreads) {
  const Shuffled data = shuffled(kRows, kRows);
  const Match found = match_of(data);
  EXPECT_EQ(found.verdict, MatchVerdict::matched) << describe(found);
  EXPECT_GT(data.right(found), 0.9 * kRows);
  EXPECT_GT(data.right(found), 0.9 * static_cast<double>(found.chances.size()));
  EXPECT_EQ(found.pairs.size(), 2 * found.chances.size());
  EXPECT_TRUE(std::ranges::is_sorted(found.chances, std::greater{}));
  EXPECT_GT(found.chances.front(), 0.8F);
  EXPECT_THAT(describe(found), ::testing::StartsWith("matched: "));
  const unsigned before = threads();
  set_threads(before == 1 ? 3 : 1);
  const Match again = match_of(data);
  set_threads(before);
  EXPECT_EQ(found.pairs, again.pairs);
  EXPECT_EQ(found.chances, again.chances);
  EXPECT_TRUE(std::ranges::equal(found.rotation.weight.cells(), again.rotation.weight.cells()));
}

TEST(Match, JudgesByPairsThatWereKeptBack) {
  const Shuffled data = shuffled(200, 200);
  MatchOptions options;
  options.pairs = data.pairs(12);
  const Match found = match_of(data, options);
  EXPECT_EQ(found.verdict, MatchVerdict::matched) << describe(found);
  ASSERT_TRUE(found.kept_back);
  EXPECT_EQ(found.kept_back->pairs, 4U);
  EXPECT_GE(found.kept_back->mrr_after, found.kept_back->mrr_before);
  EXPECT_GT(data.right(found), 0.9 * 200);
  EXPECT_TRUE(found.warnings.empty());
}

TEST(Match, TakesFewerRowsIfPairsDecide) {
  const Shuffled data = shuffled(100, 300);
  const Space first = space_of("first", data.first), second = space_of("second", data.second);
  MatchOptions options;
  options.pairs = data.pairs(20);
  const Match found = match(first, second, options);
  EXPECT_EQ(found.verdict, MatchVerdict::matched) << describe(found);
  EXPECT_GT(data.right(found), 0.8 * 100);
  expect_error(
      Code::bad_argument,
      [&] {
        (void)match(first.with_rows(RowRange{0, 99}), second, options);
      },
      "99 rows", "100 with 10");
  options.pairs.resize(18);
  expect_error(
      Code::bad_argument, [&] { (void)match(first, second, options); }, "100 rows", "200");
}

TEST(Match, NoticesPairsThatAreWrong) {
  const Shuffled data = shuffled(200, 200);
  MatchOptions options;
  options.pairs = data.pairs(12);
  for (std::size_t i = 0; i < 12; ++i) options.pairs[2 * i] = static_cast<std::int64_t>(100 + i);
  const Match all_wrong = match_of(data, options);
  EXPECT_EQ(all_wrong.verdict, MatchVerdict::not_matched);
  EXPECT_THAT(describe(all_wrong), ::testing::HasSubstr("are the pairs right"));
  EXPECT_TRUE(all_wrong.pairs.empty());
}

TEST(Match, SaysThatUnrelatedSpacesAreNotMatched) {
  const Matrix first = encode(latent_rows(200, 1), 100), second = test::random_matrix(250, 30, 3);
  MatchOptions options;
  options.runs = 2;
  const Match found = match(space_of("first", first), space_of("noise", second), options);
  EXPECT_EQ(found.verdict, MatchVerdict::not_matched);
  EXPECT_TRUE(found.pairs.empty());
  EXPECT_THAT(describe(found), ::testing::StartsWith("not matched: "));
}

TEST(Match, NoticesThatTheInputsDiffer) {
  Shuffled data = shuffled(kRows, kRows);
  MatchOptions options;
  options.pairs = data.pairs(20);
  const Matrix others = encode(latent_rows(kRows, 2), 200);
  for (std::size_t r = 20; r < kRows; ++r) {
    std::ranges::copy(others.row(r), data.second.row(static_cast<std::size_t>(data.order[r])).begin());
  }
  const Match found = match_of(data, options);
  EXPECT_EQ(found.verdict, MatchVerdict::disjoint) << describe(found);
  EXPECT_TRUE(found.pairs.empty());
  const Space first = space_of("first", data.first), second = space_of("second", data.second);
  const Bundle bundle = rotation_bundle(found, first, second);
  const Matrix seen = encode(latent_rows(200, 3), 100), wanted = encode(latent_rows(200, 3), 200);
  const Matrix a = bundle.map("first")->apply(seen.view()), b = bundle.map("second")->apply(wanted.view());
  const Comparison scores = compare(a.view(), b.view());
  EXPECT_GT(scores.mrr, 0.5);
}

TEST(Match, FindsAFewRowsAmongMany) {
  const Shuffled data = shuffled(200, 20500);
  MatchOptions options;
  options.pairs = data.pairs(20);
  const Match found = match_of(data, options);
  EXPECT_EQ(found.verdict, MatchVerdict::matched) << describe(found);
  // The two maps are no rotation of each other: one from all 200 true pairs finds 106 of them among so many rows.
  EXPECT_GT(data.right(found), 80) << found.chances.size();
}

TEST(Match, TakesRowsThatRepeatOrSayNothing) {
  Shuffled data = shuffled(200, 200);
  std::ranges::copy(data.first.row(3), data.first.row(4).begin());
  std::ranges::fill(data.second.row(5), 3.0F);
  MatchOptions options;
  options.pairs = data.pairs(10, 10);
  const Match found = match_of(data, options);
  EXPECT_TRUE(found.kept_back);
  EXPECT_EQ(found.verdict, MatchVerdict::matched) << describe(found);
}

TEST(Match, RefusesWhatItCannotMatch) {
  const Shuffled data = shuffled(220, 220);
  const Space first = space_of("first", data.first), second = space_of("second", data.second);
  const auto with = [&](std::vector<std::int64_t> pairs) {
    MatchOptions options;
    options.pairs = std::move(pairs);
    return [&, options] { (void)match(first, second, options); };
  };
  expect_error(Code::bad_argument, with({0, 1, 2}), "2 row numbers");
  expect_error(Code::bad_argument, with({0, 1, 5, 220}), "pair 1", "row 220", "second", "0:220");
  expect_error(Code::bad_argument, with({0, 1, 5, 1}), "pairs 0 and 1", "row 1", "second");
  expect_error(Code::bad_argument, with({7, 1, 7, 2}), "pairs 0 and 1", "row 7", "first");
  expect_error(
      Code::bad_argument, [&] { (void)match(first, space_of("first", data.second)); }, "both spaces", "first");
  expect_error(
      Code::bad_argument,
      [&] {
        (void)match(first.with_rows(RowRange{0, 199}), second);
      },
      "199 rows", "200");
  const Matrix same(200, 5);
  expect_error(
      Code::bad_file, [&] { (void)match(first, space_of("flat", same)); }, "flat", "the same");
  Matrix thin(220, 5);
  Random random(1);
  for (float& value : thin.cells()) value = static_cast<float>(random.normal());
  expect_error(
      Code::bad_argument, [&] { (void)match(first, space_of("thin", thin)); }, "thin", "5 directions", "12");
  Matrix broken = data.second;
  broken.row(17)[2] = std::numeric_limits<float>::quiet_NaN();
  expect_error(
      Code::bad_file, [&] { (void)match(first, space_of("broken", broken)); }, "row 17");
}

TEST(Match, StopsWhenItsListenerThrows) {
  const Shuffled data = shuffled(200, 200);
  struct Stop : std::exception {};
  const auto stop = [](const ProgressReport& report) {
    if (report.step.find("round") != std::string_view::npos) throw Stop();
  };
  EXPECT_THROW((void)match(space_of("first", data.first), space_of("second", data.second), {}, stop), Stop);
}

}  // namespace
}  // namespace kedge
