// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <kedge/draw.h>
#include <kedge/error.h>
#include <kedge/moments.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace kedge::test {
namespace {

constexpr std::size_t kDim = 5;

/// Rows that say which id they belong to.
Matrix rows_of(std::span<const std::int64_t> ids) {
  Matrix rows(ids.size(), kDim);
  for (std::size_t r = 0; r < ids.size(); ++r) {
    for (std::size_t i = 0; i < kDim; ++i) rows.row(r)[i] = static_cast<float>(ids[r]) + 0.125F * static_cast<float>(i);
  }
  return rows;
}

void add(SupportDraw& draw, std::span<const std::int64_t> ids) {
  const Matrix rows = rows_of(ids);
  const std::vector<MatrixView<const float>> spaces{rows.view().middle_cols(0, 2), rows.view().middle_cols(2, 3)};
  draw.add(ids, spaces);
}

std::vector<std::int64_t> shuffled(std::size_t count, unsigned seed) {
  std::vector<std::int64_t> ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  for (std::int64_t& id : ids) id = 3 * id + 1;
  std::mt19937 random(seed);
  std::ranges::shuffle(ids, random);
  return ids;
}

std::vector<std::int64_t> smallest(std::vector<std::int64_t> ids, std::size_t count, std::uint64_t seed) {
  std::ranges::sort(ids, {}, [&](std::int64_t id) { return draw_key(id, seed); });
  ids.resize(std::min(ids.size(), count));
  return ids;
}

void expect_holds(const SupportDraw& draw, const std::vector<std::int64_t>& ids) {
  EXPECT_EQ(draw.ids(), ids);
  const Matrix expected = rows_of(ids), found = draw.rows();
  EXPECT_TRUE(std::ranges::equal(found.cells(), expected.cells()));
}

TEST(IdNumber, IsTheNumberOrAHashOfTheText) {
  EXPECT_EQ(id_number("0"), 0);
  EXPECT_EQ(id_number("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(id_number(std::int64_t{12}), 12);
  EXPECT_EQ(id_number(std::int64_t{-5}), id_number("-5"));
  // In plain Python, from the formulas of docs/format.md.
  EXPECT_EQ(id_number("doc-1"), 8649625102945175306);
  EXPECT_EQ(id_number(""), 8832978290816513101);
  EXPECT_EQ(id_number("07"), 6338858816288301245);
  EXPECT_EQ(draw_key(0, 0), 9206327630398885983U);
  EXPECT_EQ(draw_key(7, 3), 11109184848847700794U);
  for (const char* text : {"07", "+7", " 7", "7 ", "-7", "9223372036854775808", "7.0", ""}) {
    EXPECT_GE(id_number(text), 0) << text;
    EXPECT_NE(id_number(text), 7) << text;
  }
}

TEST(SupportDraw, KeepsTheSmallestKeysWhateverTheOrderAndTheBlocks) {
  for (const std::size_t count : {1UL, 2UL, 100UL, 4000UL, 6000UL}) {
    for (const unsigned seed : {0U, 1U}) {
      const std::vector<std::int64_t> ids = shuffled(5000, seed + 1);
      SupportDraw draw(count, seed);
      std::mt19937 random(seed);
      for (std::size_t first = 0; first < ids.size();) {
        const std::size_t rows = std::min<std::size_t>(ids.size() - first, random() % 900);
        add(draw, std::span(ids).subspan(first, rows));
        first += rows;
      }
      expect_holds(draw, smallest(ids, count, seed));
    }
  }
}

TEST(SupportDraw, OneLargeBlockIsLikeMany) {
  const std::vector<std::int64_t> ids = shuffled(50'000, 4);
  SupportDraw draw(300, 9);
  add(draw, ids);
  expect_holds(draw, smallest(ids, 300, 9));
}

TEST(SupportDraw, MergesInAnyShape) {
  const std::vector<std::int64_t> ids = shuffled(3000, 2);
  std::vector<SupportDraw> parts;
  for (std::size_t first = 0; first < ids.size(); first += 250) {
    add(parts.emplace_back(120, 5), std::span(ids).subspan(first, 250));
  }
  SupportDraw chain(120, 5);
  for (const SupportDraw& part : parts) chain.merge(part);
  while (parts.size() > 1) {
    std::vector<SupportDraw> next;
    for (std::size_t i = 0; i < parts.size(); i += 2) {
      next.push_back(parts[i]);
      if (i + 1 < parts.size()) next.back().merge(parts[i + 1]);
    }
    parts = std::move(next);
  }
  expect_holds(chain, smallest(ids, 120, 5));
  expect_holds(parts.front(), smallest(ids, 120, 5));
}

TEST(SupportDraw, KeepsTheRowsOfGivenIdsInTheirOrder) {
  const std::vector<std::int64_t> ids = shuffled(1000, 3);
  const std::vector<std::int64_t> wanted{ids[900], ids[3], ids[500], 2, ids[0]};  // nothing has the id 2
  SupportDraw first(wanted), second(wanted);
  add(first, std::span(ids).first(600));
  add(second, std::span(ids).subspan(600));
  second.merge(first);
  expect_holds(second, {ids[900], ids[3], ids[500], ids[0]});
}

TEST(SupportDraw, AnIdOfTheSupportCannotComeTwice) {
  const std::vector<std::int64_t> ids = shuffled(2000, 6);
  const std::vector<std::int64_t> drawn = smallest(ids, 50, 0);
  for (const std::int64_t again : {drawn.front(), drawn.back()}) {
    for (const std::size_t place : {0UL, 1000UL, 2000UL}) {
      std::vector<std::int64_t> twice = ids;
      twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(place), again);
      const std::string words = fmt::format("id {} belongs to more than one row", again);
      SupportDraw at_once(50, 0), bit_by_bit(50, 0), left(50, 0), right(50, 0);
      expect_error(
          Code::bad_argument, [&] { add(at_once, twice); }, words);
      EXPECT_EQ(at_once.size(), 0U) << "what is refused leaves nothing behind";
      expect_error(
          Code::bad_argument,
          [&] {
            for (std::size_t row = 0; row < twice.size(); row += 3) add(bit_by_bit, std::span(twice).subspan(row, 3));
          },
          words);
      add(left, ids);
      add(right, std::span(&again, 1));
      expect_error(
          Code::bad_argument, [&] { left.merge(right); }, words);
      expect_holds(left, drawn);
    }
  }
  SupportDraw one(1, 0);
  const std::vector<std::int64_t> same{7, 7};
  expect_error(
      Code::bad_argument, [&] { add(one, same); }, "id 7 ");
}

TEST(SupportDraw, RefusesWhatDoesNotFit) {
  expect_error(
      Code::bad_argument, [] { SupportDraw(0, 1); }, "0 rows");
  expect_error(
      Code::bad_argument,
      [] {
        SupportDraw(std::vector<std::int64_t>{3, 4, 3});
      },
      "support id 3", "more than once");
  expect_error(
      Code::bad_argument, [] { SupportDraw(std::vector<std::int64_t>{-3}); }, "negative");
  SupportDraw draw(3, 1);
  expect_error(
      Code::bad_argument, [&] { draw.merge(SupportDraw(3, 2)); }, "seed 1", "seed 2");
  expect_error(
      Code::bad_argument, [&] { draw.merge(SupportDraw(4, 1)); }, "3 support rows", "4 support rows");
  expect_error(
      Code::bad_argument, [&] { draw.merge(SupportDraw()); }, "no support rows");
  const std::vector<std::int64_t> ids{1, 2};
  const Matrix rows = rows_of(ids), wide(1, 9);
  const std::vector<MatrixView<const float>> fewer{rows.view().middle_rows(0, 1)}, wider{wide.view()};
  expect_error(
      Code::bad_argument, [&] { draw.add(ids, fewer); }, "2 ids, but 1 rows");
  add(draw, ids);
  const std::int64_t other = 3;
  expect_error(
      Code::bad_argument,
      [&] {
        draw.add({&other, 1}, wider);
      },
      "9 values", "5");
}

TEST(MomentsWithSupport, WideRowsAreAddedInPlace) {
  const Matrix x = random_matrix(40, 1030, 1), y = random_matrix(30, 1030, 2);
  const std::vector<std::int64_t> first = shuffled(40, 1);
  std::vector<std::int64_t> second = first;
  second.resize(30);
  for (std::int64_t& id : second) id += 1000;
  Moments moments(SupportDraw(10, 0)), parts(SupportDraw(10, 0)), part(SupportDraw(10, 0));
  const std::vector xs{space_of("x", x)}, ys{space_of("x", y)};
  add_moments(moments, xs, first);
  add_moments(moments, ys, second);
  add_moments(parts, xs, first);
  add_moments(part, ys, second);
  parts.merge(part);
  EXPECT_EQ(moments.rows(), 70U);
  EXPECT_EQ(moments.support().ids(), parts.support().ids());
  EXPECT_TRUE(std::ranges::equal(moments.support_rows("x").cells(), parts.support_rows("x").cells()));
  for (std::size_t i = 0; i < 1030; ++i) EXPECT_NEAR(moments.mean()[i], parts.mean()[i], 1e-12);

  Matrix broken = y;
  broken.row(29)[3] = std::numeric_limits<float>::infinity();
  for (std::int64_t& id : second) id += 1000;
  const std::string before = moments_to_bytes(moments);
  expect_error(
      Code::bad_file, [&] { add_moments(moments, std::vector{space_of("x", broken)}, second); }, "row 29");
  EXPECT_EQ(moments_to_bytes(moments), before);
}

}  // namespace
}  // namespace kedge::test
