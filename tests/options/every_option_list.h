// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <kedge/error.h>
#include <kedge/options/option.h>

#include <set>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

// What holds for every options_of(); a test instantiates it with its own structs.
namespace kedge::test {

inline std::vector<OptionValue> values_of(const std::vector<Option>& list) {
  std::vector<OptionValue> all;
  for (const Option& option : list) all.push_back(value_of(option));
  return all;
}

/// Gives an option a value it does not have yet.
inline void change(const Option& option) {
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
        } else if constexpr (std::is_same_v<Value, std::optional<std::size_t>*>) {
          *value = value->value_or(0) + 1;
        } else {
          *value += 1;
        }
      },
      option.value);
}

inline std::string refusal(const TextValue& value, const std::string& given) {
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
TYPED_TEST_SUITE_P(EveryList);

TYPED_TEST_P(EveryList, NamesAndExplainsEachOptionOnce) {
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

TYPED_TEST_P(EveryList, HasAPlaceOfItsOwnForEachOption) {
  TypeParam fresh;
  const std::vector<OptionValue> defaults = values_of(options_of(fresh));
  for (std::size_t i = 0; i < defaults.size(); ++i) {
    TypeParam options;
    change(options_of(options)[i]);
    const std::vector<Option> list = options_of(options);  // another list, so that only the struct can tell it
    for (std::size_t k = 0; k < list.size(); ++k) {
      EXPECT_EQ(value_of(list[k]) != defaults[k], k == i) << list[i].name << " and " << list[k].name;
    }
  }
}

TYPED_TEST_P(EveryList, TakesBackEveryTextItShows) {
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

TYPED_TEST_P(EveryList, RefusesNonsenseWithASentence) {
  TypeParam options;
  for (const Option& option : options_of(options)) {
    const auto* value = std::get_if<TextValue>(&option.value);
    if (value == nullptr) continue;
    EXPECT_NE(refusal(*value, "nonsense").find("'nonsense'"), std::string::npos) << option.name;
  }
}

REGISTER_TYPED_TEST_SUITE_P(EveryList, NamesAndExplainsEachOptionOnce, HasAPlaceOfItsOwnForEachOption,
                            TakesBackEveryTextItShows, RefusesNonsenseWithASentence);

}  // namespace kedge::test
