// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <numeric>

namespace kedge::test {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::size_t kRows = 400;

Matrix picked(const Matrix& x, const Numbers& rows) {
  Matrix some(rows.size(), x.cols());
  for (std::size_t r = 0; r < rows.size(); ++r)
    std::ranges::copy(x.row(static_cast<std::size_t>(rows[r])), some.row(r).begin());
  return some;
}

Numbers counted(std::size_t count, std::int64_t first = 0) {
  Numbers numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

Numbers shuffled(std::size_t count, unsigned seed) {
  Numbers order = counted(count);
  std::ranges::shuffle(order, std::mt19937(seed));
  return order;
}

/// The columns side by side, as a file of pairs holds them.
Numbers side_by_side(const std::vector<Numbers>& columns) {
  Numbers pairs;
  for (std::size_t pair = 0; pair < columns.front().size(); ++pair) {
    for (const Numbers& column : columns) pairs.push_back(column[pair]);
  }
  return pairs;
}

/// Three views of the same hidden causes in the order of the first, and the two others in orders of their own.
class Pairs : public ::testing::Test {
 protected:
  Pairs() {
    const Matrix hidden = random_matrix(kRows, 6, 1);
    for (unsigned i = 0; i < 3; ++i) {
      const Matrix mix = random_matrix(6, 7 + i, 10 + i);
      Matrix& x = views_.emplace_back(random_matrix(kRows, 7 + i, 20 + i));
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t c = 0; c < x.cols(); ++c) {
          x.row(r)[c] = 3 + 0.3F * x.row(r)[c];
          for (std::size_t k = 0; k < 6; ++k) x.row(r)[c] += hidden.row(r)[k] * mix.row(k)[c];
        }
      }
    }
    for (unsigned i = 0; i < 3; ++i) {
      const Numbers order = i == 0 ? counted(kRows) : shuffled(kRows, 30 + i);
      files_.push_back(picked(views_[i], order));
      places_.emplace_back(kRows);
      for (std::size_t r = 0; r < kRows; ++r)
        places_[i][static_cast<std::size_t>(order[r])] = static_cast<std::int64_t>(r);
    }
  }
  [[nodiscard]] static std::vector<Space> spaces(const std::vector<Matrix>& of, std::size_t count) {
    std::vector<Space> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(space_of(std::string(1, static_cast<char>('a' + i)), of[i]));
    return all;
  }
  /// The pairs of these rows of the first file, in any order.
  [[nodiscard]] Numbers pairs_of(const Numbers& rows, std::size_t count) const {
    std::vector<Numbers> columns(count);
    for (const std::int64_t row : rows) {
      for (std::size_t i = 0; i < count; ++i) columns[i].push_back(places_[i][static_cast<std::size_t>(row)]);
    }
    return side_by_side(columns);
  }
  [[nodiscard]] static FitOptions options(const Method& method) {
    FitOptions options;
    options.method = method;
    options.anchors = 5;
    options.support = 200;
    return options;
  }

  std::vector<Matrix> views_, files_;
  std::vector<Numbers> places_;  ///< where each of the rows stands in each file
};

Method short_param() {
  Param param;
  param.epochs = 2;
  return param;
}

TEST_F(Pairs, OfShuffledFilesFitAsTheFilesInOrder) {
  for (const Method& method : {Method(Consensus{}), short_param(), Method(ChosenRows{Choice::kmeans})}) {
    const Bundle expected = fit(spaces(views_, 3), options(method));
    const Bundle found = fit(pair_rows(spaces(files_, 3), pairs_of(shuffled(kRows, 5), 3)), options(method));
    EXPECT_EQ(bundle_to_bytes(found), bundle_to_bytes(expected)) << to_string(method);
  }
}

TEST_F(Pairs, OfShuffledFilesMakeTheSameAdapters) {
  for (const Pairwise kind : {Pairwise::procrustes, Pairwise::kernel}) {
    FitOptions asked = options(Adapter{kind});
    asked.anchors.reset();
    const Bundle expected = fit(spaces(views_, 2), asked);
    const Bundle found = fit(pair_rows(spaces(files_, 2), pairs_of(counted(kRows), 2)), asked);
    EXPECT_EQ(bundle_to_bytes(found), bundle_to_bytes(expected));
  }
}

TEST_F(Pairs, OfSomeRowsFitAsThoseRowsAndKeepTheirNumbers) {
  RowIds some;
  for (std::int64_t row = 7; row < 390; row += row % 3 == 0 ? 1 : 2) some.ids.push_back(row);
  std::vector<Space> chosen = spaces(views_, 2);
  for (Space& space : chosen) space = space.with_rows(some);
  FitOptions asked = options(Consensus{});
  asked.support = 100;
  const Bundle found = fit(pair_rows(spaces(files_, 2), pairs_of(some.ids, 2)), asked);
  EXPECT_EQ(bundle_to_bytes(found), bundle_to_bytes(fit(chosen, asked)));
  for (const std::int64_t id : found.anchors().support_ids) EXPECT_THAT(some.ids, ::testing::Contains(id));
}

TEST_F(Pairs, OfSeveralRowsWithOneCountItAsOften) {
  Numbers ones;
  for (const std::int64_t row : counted(kRows)) ones.push_back(row / 4);
  const std::vector<Matrix> repeated{views_[0], picked(views_[1], ones)};
  const Bundle expected = fit(spaces(repeated, 2), options(Consensus{}));
  const Bundle found = fit(pair_rows(spaces(views_, 2), side_by_side({counted(kRows), ones})), options(Consensus{}));
  EXPECT_EQ(bundle_to_bytes(found), bundle_to_bytes(expected));
}

TEST_F(Pairs, FindWhichRowsASpaceToAttachHas) {
  const Bundle bundle = fit(spaces(views_, 2), options(Consensus{}));
  const Bundle expected = bundle.with(attach(bundle, space_of("c", views_[2])));
  const Numbers pairs = side_by_side({counted(kRows), places_[2]});
  const AttachInput input = read_input(bundle, {space_of("c", files_[2]), {}, {}, pairs});
  EXPECT_TRUE(input.places.empty());
  EXPECT_EQ(bundle_to_bytes(bundle.with(attach(bundle, input))), bundle_to_bytes(expected));
}

TEST_F(Pairs, OfSomeSupportRowsAreEnoughForARidge) {
  const Bundle bundle = fit(spaces(views_, 2), options(Consensus{}));
  Numbers pairs;
  for (std::int64_t row = 0; row < 300; ++row)
    pairs.insert(pairs.end(), {row, places_[2][static_cast<std::size_t>(row)]});
  const AttachRows given{space_of("c", files_[2]), {}, {}, pairs};
  const AttachInput input = read_input(bundle, given);
  const auto named = std::ranges::count_if(bundle.anchors().support_ids, [](std::int64_t id) { return id < 300; });
  EXPECT_EQ(input.support.rows(), static_cast<std::size_t>(named));
  EXPECT_EQ(input.moments.rows(), 300U);
  const Bundle grown = bundle.with(attach(bundle, input));
  EXPECT_GT(grown.space("c").row_check.value().found_first, 0.5);
  EXPECT_NO_THROW((void)bundle_from_bytes(bundle_to_bytes(grown), "bytes"));

  AttachOptions by_kernel;
  by_kernel.by = AttachBy::kernel;
  const std::string count = std::to_string(named) + " of the bundle's 200 support rows";
  expect_error(
      Code::bad_argument, [&] { (void)read_input(bundle, given, by_kernel); }, count, "all are needed", "ridge");
  expect_error(
      Code::bad_argument, [&] { (void)attach(bundle, input, by_kernel); }, count);
  const AttachRows few{space_of("c", files_[2]), {}, {}, Numbers(pairs.begin(), pairs.begin() + 60)};
  expect_error(
      Code::bad_argument, [&] { (void)read_input(bundle, few); }, "or 50 with", "first file");
}

TEST_F(Pairs, NameTheFilesRowOfABadValue) {
  files_[1].row(static_cast<std::size_t>(places_[1][9]))[2] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Space> paired = pair_rows(spaces(files_, 2), pairs_of(counted(kRows), 2));
  expect_error(
      Code::bad_file, [&] { (void)fit(paired, options(Consensus{})); }, "'b'",
      "row " + std::to_string(places_[1][9]) + " of b");
}

TEST_F(Pairs, ThatAreWrongAreNoticed) {
  const Bundle bundle =
      fit(pair_rows(spaces(files_, 2), side_by_side({counted(kRows), shuffled(kRows, 9)})), options(Consensus{}));
  EXPECT_THAT(warnings_of_sources(bundle), ::testing::ElementsAre(::testing::HasSubstr("do not match each other")));
}

TEST_F(Pairs, ThatCannotBeAreNamed) {
  const std::vector<Space> two = spaces(files_, 2);
  const auto refused = [&](const Numbers& pairs, const auto&... words) {
    expect_error(
        Code::bad_argument, [&] { (void)pair_rows(two, pairs); }, words...);
  };
  refused({0, 0, 1, 400}, "pair 1", "row 400", "'b'", "rows 0:400", "from 0");
  refused({0, 0, 1, 2, -1, 3}, "pair 2", "row -1", "'a'");
  refused({}, "no pairs");
  refused({0, 0, 1}, "2 row numbers", "3 were given");
  refused({5, 1, 6, 2, 5, 1}, "pairs 0 and 2 are the same");
  refused({5, 1, 6, 2, 5, 3}, "pairs 0 and 2", "row 5", "in one pair only");
  expect_error(
      Code::bad_argument,
      [&] {
        (void)pair_rows(std::span(two).first(1), Numbers{0, 1});
      },
      "two spaces or more");
  const std::vector<Space> chosen{two[0], two[1].with_rows({0, 50})};
  expect_error(
      Code::bad_argument,
      [&] {
        (void)pair_rows(chosen, Numbers{0, 1});
      },
      "'b'", "pairs", "rows");

  const Bundle bundle = fit(two, options(Consensus{}));
  const auto not_attached = [&](const Numbers& pairs, const AttachOptions& by, const auto&... words) {
    expect_error(
        Code::bad_argument,
        [&] {
          (void)read_input(bundle, {space_of("c", files_[2]), {}, {}, pairs}, by);
        },
        words...);
  };
  not_attached({0, 400}, {}, "pair 0", "row 400", "'c'");
  not_attached({-7, 4}, {}, "pair 0 begins with -7");
  AttachOptions alone;
  alone.support_rows = true;
  not_attached({0, 1}, alone, "support_rows");
}

}  // namespace
}  // namespace kedge::test
