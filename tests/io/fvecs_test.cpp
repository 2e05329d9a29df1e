// SPDX-License-Identifier: Apache-2.0
#include "files.h"
#include "io/array.h"

#include <cstdint>

namespace kedge::io {
namespace {

using test::bytes_of;
using test::expect_error;
using test::packed;
using test::TemporaryFolder;
using ::testing::ElementsAre;

std::string row(std::int32_t length, std::initializer_list<float> values) {
  return packed({length}) + packed(values);
}

const std::string kGood = row(2, {1.0F, -2.0F}) + row(2, {0.1F, 1e-45F}) + row(2, {3e38F, -0.0F});

void expect_refused(const std::string& file, const std::string& word) {
  expect_error(
      Code::bad_file, [&] { (void)parse_fvecs(MemoryBytes(bytes_of(file), "x.fvecs")); }, "x.fvecs", word);
}

std::shared_ptr<const RowSource> open(const TemporaryFolder& folder, const std::string& file) {
  test::write_file(folder.file("x.fvecs"), file);
  return open_rows(folder.file("x.fvecs"));
}

TEST(Fvecs, ReadsItsRows) {
  const TemporaryFolder folder;
  const auto rows = open(folder, kGood);
  EXPECT_EQ(rows->rows(), 3U);
  EXPECT_EQ(rows->cols(), 2U);
  EXPECT_THAT(test::read_floats(*rows), ElementsAre(1.0F, -2.0F, 0.1F, 1e-45F, 3e38F, -0.0F));
  EXPECT_THAT(test::read_doubles(*rows), ElementsAre(1.0, -2.0, 0.1F, 1e-45F, 3e38F, -0.0));
}

TEST(Fvecs, RefusesEveryPrefixThatIsNotWholeRows) {
  for (std::size_t size = 0; size < kGood.size(); ++size) {
    SCOPED_TRACE(size);
    if (size > 0 && size % 12 == 0) {
      EXPECT_EQ(parse_fvecs(MemoryBytes(bytes_of(kGood.substr(0, size)), "x.fvecs")).rows, size / 12);
    } else {
      expect_refused(kGood.substr(0, size), size < 8 ? "too short" : "not a whole number of rows");
    }
  }
}

TEST(Fvecs, RefusesLengthsThatLie) {
  expect_refused(row(0, {1.0F, 2.0F}), "claims 0 values");
  expect_refused(row(-1, {1.0F, 2.0F}), "claims -1 values");
  expect_refused(row(INT32_MIN, {1.0F, 2.0F}), "claims -2147483648 values");
  expect_refused(row(INT32_MAX, {1.0F, 2.0F}), "not a whole number of rows");
  expect_refused(row(3, {1.0F, 2.0F}), "not a whole number of rows");
}

TEST(Fvecs, RefusesTheRowThatDiffersWhenItIsRead) {
  for (const std::int32_t length : {1, 3, 0, -2, INT32_MAX, INT32_MIN}) {
    const TemporaryFolder folder;
    const auto rows = open(folder, row(2, {1.0F, 2.0F}) + row(length, {3.0F, 4.0F}));
    Matrix one(1, 2);
    rows->read(0, one.view());
    EXPECT_THAT(one.cells(), ElementsAre(1.0F, 2.0F));
    expect_error(
        Code::bad_file, [&] { rows->read(1, one.view()); }, "x.fvecs", "row 1", std::to_string(length).c_str(),
        "row 0 has 2");
  }
}

}  // namespace
}  // namespace kedge::io
