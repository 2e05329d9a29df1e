// SPDX-License-Identifier: Apache-2.0
// The promise of the format: what version 1 wrote, every later version reads, and makes the same of it.
#include "base/file_version.h"
#include "base/json.h"
#include "support.h"

#include <algorithm>
#include <cmath>

namespace kedge {
namespace {

using test::expect_error;

const std::string kFolder = std::string(KEDGE_TEST_DATA) + "/v1/";

Matrix read(const std::string& file) {
  return Space("x", open_rows(kFolder + file)).read_all();
}

/// The rows that the bundles of version 1 were made from, in the order of their spaces.
const std::vector<std::pair<std::string, Matrix>>& inputs() {
  static const std::vector<std::pair<std::string, Matrix>> rows{
      {"vit.base", read("a.npy")}, {"org/b", read("b.npy")}, {"c", read("c.npy")}};
  return rows;
}

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".kedge") found.push_back(entry.path().stem().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// To 1e-6 of the largest value; `made` is a part of `expected`, from row `first` on.
void expect_same(const Matrix& made, const Matrix& expected, std::size_t first, const std::string& what) {
  float largest = 0;
  for (const float value : expected.cells()) largest = std::max(largest, std::abs(value));
  ASSERT_EQ(made.cols(), expected.cols()) << what;
  ASSERT_LE(first + made.rows(), expected.rows()) << what;
  for (std::size_t r = 0; r < made.rows(); ++r) {
    for (std::size_t c = 0; c < made.cols(); ++c) {
      ASSERT_NEAR(made.row(r)[c], expected.row(first + r)[c], 1e-6F * largest) << what << ", row " << r;
    }
  }
}

TEST(FormatOne, EveryBundleGivesWhatItGave) {
  ASSERT_GE(names().size(), 8U);
  for (const std::string& name : names()) {
    const Bundle bundle = load_bundle(kFolder + name + ".kedge");
    ASSERT_EQ(bundle.spaces().size(), inputs().size()) << name;
    const Matrix expected = read(name + ".rr.npy");
    std::size_t first = 0;
    for (const auto& [space, rows] : inputs()) {
      expect_same(bundle.map(space)->apply(rows.view()), expected, first, name + " of " + space);
      first += rows.rows();
    }
    EXPECT_EQ(first, expected.rows());
  }
}

TEST(FormatOne, EveryDecoderGivesWhatItGave) {
  std::size_t translated = 0;
  for (const std::string& name : names()) {
    const Bundle bundle = load_bundle(kFolder + name + ".kedge");
    const std::string& to = inputs().front().first;
    const bool has_way_back = std::filesystem::exists(kFolder + name + ".translated.npy");
    ASSERT_EQ(bundle.space(to).decoder != nullptr, has_way_back) << name;
    if (!has_way_back) continue;
    const Matrix expected = read(name + ".translated.npy");
    std::size_t first = 0;
    for (const auto& [space, rows] : inputs()) {
      expect_same(Translator(bundle, space, to).apply(rows.view()), expected, first, name + " from " + space);
      first += rows.rows();
    }
    ++translated;
  }
  EXPECT_GE(translated, 5U);
}

TEST(FormatOne, ComesBackWhole) {
  for (const std::string& name : names()) {
    const Bundle bundle = load_bundle(kFolder + name + ".kedge");
    const Bundle again = bundle_from_bytes(bundle_to_bytes(bundle), name);
    EXPECT_EQ(bundle_to_bytes(again), bundle_to_bytes(bundle)) << name;
    EXPECT_EQ(bundle.made().kedge_version, "0.1.0") << name;
    EXPECT_EQ(bundle.anchors().support_ids.size(), 20U) << name;
    EXPECT_EQ(bundle.made().sources, (std::vector<std::string>{"vit.base", "org/b"})) << name;
  }
}

TEST(FileVersion, OneOfALaterVersionNamesIt) {
  EXPECT_EQ(format_problem("1", 1, "9.8.7"), "");
  EXPECT_EQ(format_problem("3", 4, ""), "");
  for (const char* later : {"2", "17", "99999999999999999999"}) {
    const std::string problem = format_problem(later, 1, "9.8.7");
    EXPECT_THAT(problem, ::testing::HasSubstr(std::string("format version ") + later));
    EXPECT_THAT(problem, ::testing::HasSubstr("written by kedge 9.8.7: use that or a newer one"));
  }
  EXPECT_THAT(format_problem("2", 1, "rm -rf ~"), ::testing::EndsWith("use a newer kedge"));
  EXPECT_THAT(format_problem("2", 1, version()), ::testing::EndsWith("use a newer kedge"));
  for (const char* damaged : {"", "0", "-1", "1.0", " 1", "1 ", "one", "0x1"}) {
    EXPECT_THAT(format_problem(damaged, 1, "9.8.7"), ::testing::HasSubstr("damaged")) << damaged;
  }
}

TEST(FileVersion, KnowsAVersionFromOtherText) {
  for (const char* good : {"0.1.0", "1.0rc1", "2.0.0.dev3+g1a2b3c", "1-beta_2"}) EXPECT_TRUE(is_version(good)) << good;
  for (const char* bad : {"", "1 0", "1\n0", "\x1b[2J", "1;2", "\xc2\x9b"}) EXPECT_FALSE(is_version(bad)) << bad;
  EXPECT_FALSE(is_version(std::string(1000, '1')));
}

TEST(Json, OfAHostileFileHasLimits) {
  const JsonLimits limits{.deepest = 3, .most_members = 2, .longest_list = 4};
  for (const char* good : {"{}", "[1,2,3,4]", R"({"a":{"b":[1]},"b":{"b":2}})", "7", R"("x")"}) {
    EXPECT_EQ(json_problem(good, limits), "") << good;
  }
  EXPECT_EQ(json_problem("[[[[]]]]", limits), "is nested too deeply");
  EXPECT_EQ(json_problem(R"({"a":1,"\u0061":2})", limits), "names 'a' twice");
  EXPECT_EQ(json_problem(R"({"a":1,"b":2,"c":3})", limits), "has more than 2 members in one object");
  for (const char* list : {"[1,2,3,4,5]", "[[],[],[],[],[]]", R"(["","","","",""])", "[{},{},{},{},{}]"}) {
    EXPECT_EQ(json_problem(list, limits), "has more than 4 values in one list") << list;
  }
  for (const char* bad : {"", "{", "[1,]", "NaN", "1e999", "\"\xff\"", "{} {}"}) {
    EXPECT_EQ(json_problem(bad, limits), "is not valid JSON") << bad;
  }
  expect_error(
      Code::bad_file, [&] { (void)parse_json("[", "its mood", limits); }, "its mood is not valid JSON");
}

TEST(Error, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(printable("a=1, b: 'x' (日本, é)"), "a=1, b: 'x' (日本, é)");
  EXPECT_EQ(printable("\x1b[2J\n\r\t\x7f"), R"(\x1b[2J\x0a\x0d\x09\x7f)");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            R"(\xc2\x9b2J)");  // one byte less than \x1b[, and the same to some terminals
  EXPECT_EQ(printable("a\xe2\x80\xae!"), R"(a\xe2\x80\xae!)");
  for (const char* bad : {"\xff", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xc0\xaf"}) {
    EXPECT_EQ(printable(bad).substr(0, 2), "\\x");
    EXPECT_EQ(printable(bad).size(), 4 * std::string_view(bad).size());
  }
  EXPECT_STREQ(Error(Code::bad_file, std::string("a\0b", 3)).what(), R"(a\x00b)");
  const std::string longest = Error(Code::bad_file, "x: " + std::string(1 << 20, '\x1b') + "; do that").what();
  EXPECT_LT(longest.size(), 20'000U);
  EXPECT_THAT(longest, ::testing::StartsWith("x: "));
  EXPECT_THAT(longest, ::testing::EndsWith("; do that"));
}

}  // namespace
}  // namespace kedge
