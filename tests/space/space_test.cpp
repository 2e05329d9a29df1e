// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <limits>

namespace kedge {
namespace {

using test::expect_error;
using test::random_matrix;
using test::space_of;

TEST(Space, NamesTheFilesRowOfABadValue) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    Matrix x = random_matrix(50, 3, 1);
    x.row(37)[2] = bad;
    const Space part("clip", view_rows(x.view(), "x.npy"), {30, 50});
    Matrix block(20, 3);
    expect_error(
        Code::bad_file, [&] { part.read(0, block.view()); }, "'clip'", "row 37", "x.npy", "NaN or infinite");
    expect_error(
        Code::bad_file, [&] { (void)compute_moments(part); }, "row 37");
    const std::int64_t ids[] = {40, 37};
    expect_error(
        Code::bad_file, [&] { (void)part.gather(ids); }, "row 37");
    Matrix before(7, 3);
    EXPECT_NO_THROW(part.read(0, before.view()));
  }
}

TEST(Space, AValueTooLargeForFloat32IsRefusedLikeInfinity) {
  Matrix64 x(2, 1);
  x.row(1)[0] = 1e300;
  const Space space("x", view_rows(std::as_const(x).view(), "x"));
  Matrix block(2, 1);
  expect_error(
      Code::bad_file, [&] { space.read(0, block.view()); }, "row 1");
}

TEST(Space, RefusesRangesOutsideTheRows) {
  const Matrix x = random_matrix(10, 3, 1);
  const auto source = view_rows(x.view(), "x.npy");
  EXPECT_EQ(Space("x", source, {4, RowRange::kEnd}).rows(), 6U);
  expect_error(
      Code::bad_argument,
      [&] {
        Space("x", source, {0, 11});
      },
      "rows 0:11", "rows 0:10");
  expect_error(
      Code::bad_argument,
      [&] {
        Space("x", source, {5, 5});
      },
      "rows 5:5");
  expect_error(
      Code::bad_argument,
      [&] {
        Space("x", source, {7, 3});
      },
      "rows 7:3");
  const Matrix empty(0, 3);
  expect_error(
      Code::bad_file, [&] { space_of("x", empty); }, "no rows");
}

TEST(Space, RefusesNamesABundleCannotHold) {
  const Matrix x = random_matrix(10, 3, 1);
  for (const char* name : {"", "a=b", "a#b", "a\nb", "\xff", "\xc3", "a\x80", "\xed\xa0\x80", "\xe0\x80\x80"}) {
    expect_error(
        Code::bad_argument, [&] { space_of(name, x); }, "space name");
  }
  EXPECT_NO_THROW(space_of("all-MiniLM-L6.v2 (mean)", x));
  EXPECT_NO_THROW(space_of("modèle-é", x));
}

TEST(Space, GatherKeepsTheOrderAsked) {
  const Matrix x = random_matrix(10, 3, 1);
  const std::int64_t ids[] = {7, 2};
  const Matrix64 rows = space_of("x", x).gather(ids);
  EXPECT_EQ(rows.row(0)[1], x.row(7)[1]);
  EXPECT_EQ(rows.row(1)[2], x.row(2)[2]);
  const std::int64_t outside[] = {10};
  expect_error(
      Code::bad_argument, [&] { (void)space_of("x", x).gather(outside); }, "row 10", "rows 0:10");
}

TEST(Space, ReadsNoRowsThatWereNotChosen) {
  const Matrix x = random_matrix(10, 3, 1);
  const Space all = space_of("x", x);
  for (const Space& part : {all.with_rows(RowRange{2, 6}), all.with_rows(RowIds{{9, 4, 5, 0}, {}})}) {
    Matrix out(3, 3), narrow(3, 2);
    EXPECT_NO_THROW(part.read(1, out.view()));
    expect_error(
        Code::bad_argument, [&] { part.read(2, out.view()); }, "space 'x'", "3 rows of 3 values from row 2 on",
        "has 4 rows of 3");
    expect_error(
        Code::bad_argument, [&] { part.read(RowRange::kEnd, out.view()); }, "has 4 rows");
    expect_error(
        Code::bad_argument, [&] { part.read(0, narrow.view()); }, "3 rows of 2 values");
  }
}

TEST(Space, ParallelSpacesHaveTheSameRowsOfTheirFiles) {
  const Matrix x = random_matrix(30, 3, 1);
  const Space all = space_of("a", x), other = space_of("b", x);
  const auto parallel = [](const Space& a, const Space& b) { return [a, b] { require_parallel(std::vector{a, b}); }; };
  EXPECT_NO_THROW(parallel(all.with_rows(RowRange{5, 20}), other.with_rows(RowRange{5, 20}))());
  expect_error(Code::bad_argument, parallel(all.with_rows(RowRange{0, 20}), other.with_rows(RowRange{10, 30})),
               "row 0 of 'a' is row 0", "of 'b' is row 10", "same rows of every file");
  EXPECT_NO_THROW(parallel(all.with_rows(RowIds{{4, 2, 9}, {}}), other.with_rows(RowIds{{4, 2, 9}, {}}))());
  expect_error(Code::bad_argument,
               parallel(all.with_rows(RowIds{{4, 2, 9}, {}}), other.with_rows(RowIds{{4, 9, 2}, {}})),
               "row 1 of 'a' is row 2");
  EXPECT_NO_THROW(parallel(all.with_rows(RowIds{{5, 6, 7}, {}}), other.with_rows(RowRange{5, 8}))());
}

}  // namespace
}  // namespace kedge
