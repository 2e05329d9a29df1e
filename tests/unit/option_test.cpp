// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <kedge/kedge.h>

#include <set>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

namespace kedge {
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

/// What an option holds, as text.
std::string shown(const Option& option) {
  return std::visit(
      [](const auto& value) -> std::string {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, TextValue>) {
          return value.get();
        } else if constexpr (std::is_same_v<Value, std::string*>) {
          return *value;
        } else if constexpr (std::is_same_v<Value, std::vector<std::size_t>*>) {
          std::string all;
          for (const std::size_t one : *value) all += std::to_string(one) + ",";
          return all;
        } else {
          return std::to_string(*value);
        }
      },
      option.value);
}

std::vector<std::string> shown(const std::vector<Option>& list) {
  std::vector<std::string> all;
  for (const Option& option : list) all.push_back(shown(option));
  return all;
}

/// Gives an option a value it does not have yet.
void change(const Option& option) {
  std::visit(
      [&](const auto& value) {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, TextValue>) {
          value.set(option.choices.empty() ? "0.25" : std::string(option.choices.back()));
        } else if constexpr (std::is_same_v<Value, bool*>) {
          *value = !*value;
        } else if constexpr (std::is_same_v<Value, std::string*>) {
          *value = "file";
        } else if constexpr (std::is_same_v<Value, std::vector<std::size_t>*>) {
          *value = {2, 3};
        } else {
          *value += 1;
        }
      },
      option.value);
}

std::string refusal(const TextValue& value, const std::string& given) {
  const std::string before = value.get();
  try {
    value.set(given);
  } catch (const Error& problem) {
    EXPECT_EQ(problem.code(), Code::bad_argument);
    EXPECT_EQ(value.get(), before) << "what is refused changes nothing";
    return problem.what();
  }
  return "nothing was refused";
}

template <class Options>
class EveryList : public testing::Test {};
using Lists = testing::Types<FitOptions, AttachOptions, HeadOptions, CompareOptions>;
TYPED_TEST_SUITE(EveryList, Lists);

TYPED_TEST(EveryList, NamesAndExplainsEachOptionOnce) {
  TypeParam options;
  std::set<std::string_view> names;
  for (const Option& option : options_of(options)) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_EQ(option.help.find("--"), std::string::npos) << option.name << ": Python has no dashes";
    EXPECT_EQ(option.type.empty(), std::holds_alternative<bool*>(option.value)) << option.name;
    EXPECT_EQ(option.type == "NAME", !option.choices.empty()) << option.name;
  }
}

TYPED_TEST(EveryList, HasAPlaceOfItsOwnForEachOption) {
  TypeParam fresh;
  const std::vector<std::string> defaults = shown(options_of(fresh));
  for (std::size_t i = 0; i < defaults.size(); ++i) {
    TypeParam options;
    change(options_of(options)[i]);
    const std::vector<Option> list = options_of(options);  // another list, so that only the struct can tell it
    for (std::size_t k = 0; k < list.size(); ++k) {
      EXPECT_EQ(shown(list[k]) != defaults[k], k == i) << list[i].name << " and " << list[k].name;
    }
  }
}

TYPED_TEST(EveryList, TakesBackEveryTextItShows) {
  TypeParam options;
  for (const Option& option : options_of(options)) {
    const auto* value = std::get_if<TextValue>(&option.value);
    if (value == nullptr) continue;
    const std::string before = value->get();
    change(option);
    value->set(before);
    EXPECT_EQ(value->get(), before) << option.name;
    for (const std::string_view choice : option.choices) {
      value->set(std::string(choice));
      EXPECT_EQ(value->get(), choice) << option.name;
    }
  }
}

TYPED_TEST(EveryList, RefusesNonsenseWithASentence) {
  TypeParam options;
  for (const Option& option : options_of(options)) {
    const auto* value = std::get_if<TextValue>(&option.value);
    if (value == nullptr) continue;
    EXPECT_NE(refusal(*value, "nonsense").find("'nonsense'"), std::string::npos) << option.name;
  }
}

TEST(OptionsOf, AFitReachItsFields) {
  FitOptions options;
  const std::vector<Option> list = options_of(options);
  text(list, "method").set("consensus");
  text(list, "coverage-rows").set("all");
  *std::get<std::size_t*>(named(list, "anchors").value) = 7;
  *std::get<double*>(named(list, "lr").value) = 0.5;
  *std::get<bool*>(named(list, "resume").value) = true;
  *std::get<double*>(named(list, "refine-tau").value) = 0.75;
  EXPECT_EQ(options.method, Method::consensus);
  EXPECT_EQ(options.param.coverage_rows, CoverageRows::all);
  EXPECT_EQ(options.anchors, 7U);
  EXPECT_EQ(options.param.learning_rate, 0.5);
  EXPECT_TRUE(options.checkpoint.resume);
  EXPECT_EQ(options.consensus.refine_tau, 0.75);
  EXPECT_EQ(named(list, "resume").group, "param");
  EXPECT_EQ(named(list, "power").group, "consensus");
}

TEST(OptionsOf, ShrinkageIsANumberOrARule) {
  FitOptions options;
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
  EXPECT_EQ(refusal(by, "direct"), "attach is 'direct', expected mixture or ridge");
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

TEST(SweepPoints, AreAllCombinations) {
  FitOptions fit;
  fit.seed = 3;
  const std::vector<FitOptions> points = sweep_points(fit, {5, 6}, {}, {"0.5", "oas", "0.25"});
  ASSERT_EQ(points.size(), 6U);
  EXPECT_EQ(points[3].anchors, 6U);
  EXPECT_EQ(points[3].support, fit.support);
  EXPECT_EQ(points[3].seed, 3U);
  EXPECT_EQ(points[4].shrinkage_rule, ShrinkageRule::oas);
  EXPECT_EQ(points[4].whitening.shrinkage, fit.whitening.shrinkage) << "no trace of the point before";
  EXPECT_EQ(points[5].whitening.shrinkage, 0.25);
  EXPECT_EQ(points[5].shrinkage_rule, ShrinkageRule::fixed);
  EXPECT_EQ(sweep_points(fit, {}, {}, {}).size(), 1U);
  EXPECT_THROW((void)sweep_points(fit, {}, {}, {"much"}), Error);
}

TEST(SweepPoints, AreLeftOutWhereTheyCannotBeUnlessAllAreSuch) {
  const auto numbers = [](const std::vector<FitOptions>& points) {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (const FitOptions& point : points) pairs.emplace_back(point.anchors, point.support);
    return pairs;
  };
  using Numbers = std::vector<std::pair<std::size_t, std::size_t>>;
  std::vector<FitOptions> points = sweep_points({}, {10, 20, 40}, {20, 0}, {});
  EXPECT_EQ(numbers(leave_out_impossible(points, 30)), (Numbers{{40, 20}, {40, 30}}));
  EXPECT_EQ(numbers(points), (Numbers{{10, 20}, {10, 0}, {20, 20}, {20, 0}}));
  EXPECT_TRUE(leave_out_impossible(points, 30).empty());
  EXPECT_EQ(points.size(), 4U);
  EXPECT_TRUE(leave_out_impossible(points = sweep_points({}, {40, 50}, {20}, {}), 30).empty());
  EXPECT_EQ(points.size(), 2U) << "so that it is refused";

  FitOptions given;
  given.support_ids = {3, 1, 2};
  points = sweep_points(given, {3, 4}, {}, {});
  EXPECT_EQ(numbers(leave_out_impossible(points, 30)), (Numbers{{4, 3}})) << "as many as there are ids";
  EXPECT_EQ(numbers(points), (Numbers{{3, 0}}));
}

TEST(Wording, IsThatOfTheLibraryUnlessToldOtherwise) {
  ASSERT_EQ(spoken_to(), Surface::library);
  EXPECT_EQ(option_words("refine-rate"), "refine_rate");
  EXPECT_EQ(option_words("device", "cpu"), "device = cpu");
  EXPECT_EQ(flag_words("in-place"), "in_place = true");
  speak_to(Surface::command);
  EXPECT_EQ(option_words("refine-rate"), "--refine-rate");
  EXPECT_EQ(option_words("device", "cpu"), "--device cpu");
  EXPECT_EQ(flag_words("in-place"), "--in-place");
  speak_to(Surface::python);
  EXPECT_EQ(option_words("refine-rate"), "refine_rate");
  EXPECT_EQ(option_words("device", "cpu"), "device='cpu'");
  EXPECT_EQ(flag_words("in-place"), "in_place=True");
  speak_to(Surface::library);
}

}  // namespace
}  // namespace kedge
