// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace kedge {

/// What an enumeration is called in messages, and the names of its values in order.
template <std::size_t N>
struct Names {
  std::string_view what;
  std::array<std::string_view, N> names;
};

/// The names of an enumeration, specialised beside it; false for one that has none.
template <class Enum>
inline constexpr bool kNamesOf = false;

template <class Enum>
concept Named = !std::is_same_v<decltype(kNamesOf<Enum>), const bool>;

/// Where `name` is among the names; throws Error(Code::bad_argument) that lists them.
[[nodiscard]] std::size_t place_of_name(std::string_view what, std::string_view name,
                                        std::span<const std::string_view> names);

template <Named Enum>
[[nodiscard]] std::string_view to_string(Enum value) {
  return kNamesOf<Enum>.names.at(static_cast<std::size_t>(value));
}

/// parse(name) is the value of that name; throws Error(Code::bad_argument) that lists the known names.
template <Named Enum>
struct NameParser {
  Enum operator()(std::string_view name) const {
    return static_cast<Enum>(place_of_name(kNamesOf<Enum>.what, name, kNamesOf<Enum>.names));
  }
};

/// names() are all of them.
template <Named Enum>
struct NameList {
  std::vector<std::string_view> operator()() const {
    return {kNamesOf<Enum>.names.begin(), kNamesOf<Enum>.names.end()};
  }
};

}  // namespace kedge
