// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"
#include "options/every_option_list.h"
#include "support.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <kedge/options/lists.h>

#include <string>
#include <variant>
#include <vector>

namespace kedge::test {

using Lists = testing::Types<FitArguments, AttachOptions, CompareOptions, RetrieveOptions>;
INSTANTIATE_TYPED_TEST_SUITE_P(Core, EveryList, Lists);

namespace {

const Option& named(const std::vector<Option>& list, std::string_view name) {
  for (const Option& option : list) {
    if (option.name == name) return option;
  }
  throw Error(Code::failed, "there is no option " + std::string(name));
}

const TextValue& text(const std::vector<Option>& list, std::string_view name) {
  return std::get<TextValue>(named(list, name).value);
}

TEST(OptionsOf, AFitReachItsFields) {
  FitArguments options;
  const std::vector<Option> list = options_of(options);
  text(list, "method").set("consensus");
  text(list, "coverage-rows").set("all");
  *std::get<std::optional<std::size_t>*>(named(list, "anchors").value) = 7;
  *std::get<double*>(named(list, "lr").value) = 0.5;
  *std::get<bool*>(named(list, "resume").value) = true;
  *std::get<double*>(named(list, "refine-tau").value) = 0.75;
  EXPECT_TRUE(std::holds_alternative<Consensus>(options.method));
  EXPECT_EQ(options.param.coverage_rows, CoverageRows::all);
  EXPECT_EQ(options.anchors, 7U);
  EXPECT_EQ(options.param.learning_rate, 0.5);
  EXPECT_TRUE(options.param.checkpoint.resume);
  EXPECT_EQ(options.consensus.refinement.tau, 0.75);
  EXPECT_EQ(named(list, "resume").group, "param");
  EXPECT_EQ(named(list, "power").group, "consensus");
}

TEST(OptionsOf, AnotherMethodAreRefused) {
  const auto check = [](const Method& method, auto change) {
    return [=] {
      FitArguments options;
      options.method = method;
      change(options);
      require_own_options(options);
    };
  };
  expect_error(Code::bad_argument, check(Consensus{}, [](FitArguments& o) { o.param.epochs = 20; }),
               "epochs belongs to the method param", "the method is consensus", "leave out epochs");
  expect_error(Code::bad_argument,
               check(ChosenRows{Choice::random}, [](FitArguments& o) { o.param.coverage_rows = CoverageRows::all; }),
               "coverage_rows belongs to the method param", "the method is random");
  expect_error(Code::bad_argument, check(Consensus{}, [](FitArguments& o) { o.param.checkpoint.path = "c"; }),
               "checkpoint belongs to the method param");
  expect_error(Code::bad_argument, check(Param{}, [](FitArguments& o) { o.consensus.power = 1; }),
               "power belongs to the method consensus", "the method is param");
  EXPECT_NO_THROW(check(Adapter{Pairwise::cca}, [](FitArguments& o) { o.consensus.power = 1; })()) << "cca weighs too";
}

TEST(OptionsOf, ShrinkageIsANumberOrARule) {
  FitArguments options;
  const std::vector<Option> list = options_of(options);
  const TextValue& shrinkage = text(list, "shrinkage");
  EXPECT_EQ(shrinkage.get(), "0.15");
  shrinkage.set("auto");
  EXPECT_EQ(options.shrinkage_rule, ShrinkageRule::ledoit_wolf);
  shrinkage.set("0.5");
  EXPECT_EQ(options.shrinkage_rule, ShrinkageRule::fixed);
  EXPECT_EQ(options.whitening.shrinkage, 0.5);
  shrinkage.set("oas");
  EXPECT_EQ(shrinkage.get(), "oas");
  EXPECT_EQ(refusal(shrinkage, "0.5x"), "shrinkage is '0.5x', expected a number from 0 to 1, auto, ledoit-wolf or oas");
  EXPECT_NE(refusal(shrinkage, "fixed").find("expected a number"), std::string::npos) << "that is no rule to name";
}

TEST(OptionsOf, AttachAndRidgeCanBeLeftToOthers) {
  AttachOptions options;
  const std::vector<Option> list = options_of(options);
  const TextValue& by = text(list, "attach");
  EXPECT_EQ(by.get(), "");
  by.set("ridge");
  EXPECT_EQ(options.by, AttachBy::ridge);
  EXPECT_EQ(refusal(by, "direct"), "attach is 'direct', expected mixture, ridge, kernel, auto");
  by.set("");
  EXPECT_FALSE(options.by);
  const TextValue& ridge = text(list, "ridge");
  EXPECT_EQ(ridge.get(), "auto");
  ridge.set("0.1");
  EXPECT_EQ(options.ridge, 0.1);
  EXPECT_EQ(refusal(ridge, "x"), "ridge is 'x', expected auto or a number of 0 or more");
  ridge.set("auto");
  EXPECT_FALSE(options.ridge);
}

TEST(Wording, IsThatOfTheLibraryUnlessAnotherIsAskedFor) {
  const Error error(Code::failed, fmt::format("lower {}, give {} or use {}", option_words("refine-rate"),
                                              flag_words("in-place"), option_words("device", "cpu")));
  EXPECT_STREQ(error.what(), "lower refine_rate, give in_place = true or use device = cpu");
  EXPECT_EQ(error.message(Vocabulary::library), error.what());
  EXPECT_EQ(error.message(Vocabulary::command), "lower --refine-rate, give --in-place or use --device cpu");
  EXPECT_EQ(error.message(Vocabulary::python), "lower refine_rate, give in_place=True or use device='cpu'");
}

TEST(Wording, OutlivesAnErrorThatSaysMore) {
  const Error inner(Code::failed, fmt::format("lower {}", option_words("refine-rate")));
  const Error outer(inner.code(), fmt::format("{}; or {}", inner.text(), flag_words("resume")));
  EXPECT_EQ(outer.message(Vocabulary::command), "lower --refine-rate; or --resume");
}

TEST(Wording, ShowsSeparatorsThatStandInANameOfAFile) {
  for (const std::string name : {"\x1d", "\x1f", "\x1e", "\x1f\x1d", "\x1d\x1e"}) {
    EXPECT_EQ(Error(Code::bad_file, name).message(Vocabulary::command), printable(name));
  }
  EXPECT_EQ(Error(Code::bad_file, "\x1d\x1f|").message(Vocabulary::python), "|");
}

}  // namespace
}  // namespace kedge::test
