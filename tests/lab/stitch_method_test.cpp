// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <kedge/lab/stitch.h>

namespace kedge {
namespace {

using test::expect_error;

TEST(StitchMethod, IsCalledByOneNameAndKnownByOthers) {
  for (const char* name : {"absolute", "random-cosine", "random-wip", "kmeans-wip", "fps-cosine", "param-single",
                           "param-multi", "param-cosine", "consensus", "param-multi-ridge", "consensus-inner",
                           "consensus-kernel", "ridge", "ridge-inner"}) {
    EXPECT_EQ(to_string(parse_stitch_method(name)), name);
  }
  EXPECT_EQ(to_string(parse_stitch_method("param")), "param-multi");
  EXPECT_EQ(to_string(parse_stitch_method("param-wip")), "param-multi");
  EXPECT_EQ(to_string(parse_stitch_method("param-multi-cosine")), "param-cosine");
  EXPECT_EQ(to_string(parse_stitch_method("consensus-ridge")), "consensus");
  EXPECT_EQ(to_string(parse_stitch_method("random", Similarity::euclidean)), "random-euclidean");
  for (const char* wrong : {"", "parameter", "random-cos", "absolute-wip", "param-cosine-ridge", "-wip", "ridge-cosine",
                            "ridge-kernel", "ridge-ridge"}) {
    expect_error(
        Code::bad_argument, [&] { (void)parse_stitch_method(wrong); }, std::string("'") + wrong + "'", "consensus");
  }
  expect_error(
      Code::bad_argument, [] { (void)parse_stitch_method("consensus-auto"); }, "'auto'", "-ridge or -kernel");
}

TEST(StitchMethod, WithoutSimilarityStandsForOneOfEach) {
  const auto names_of = [](const std::vector<std::string>& names, const std::vector<std::string>& similarities) {
    std::vector<std::string> parsed;
    for (const StitchMethod& method : parse_stitch_methods(names, similarities)) parsed.push_back(to_string(method));
    return parsed;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names_of({" random-cosine", "param\t", "param-multi", "absolute "}, {}),
            (Names{"random-cosine", "param-multi", "absolute"}));
  EXPECT_EQ(names_of({"random", "random-wip", "absolute", "param", "fps-inner"}, {"cosine", "wip"}),
            (Names{"random-cosine", "random-wip", "absolute", "param-cosine", "param-multi", "fps-inner"}));
  EXPECT_TRUE(names_of({}, {"wip"}).empty());
  expect_error(
      Code::bad_argument,
      [&] {
        (void)names_of({"param", " much "}, {});
      },
      "method 'much'");
  expect_error(
      Code::bad_argument, [&] { (void)names_of({"  "}, {}); }, "method ''");
  expect_error(
      Code::bad_argument, [&] { (void)names_of({"param"}, {"cos"}); }, "'cos'");
}

}  // namespace
}  // namespace kedge
