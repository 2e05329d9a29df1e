// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace kedge {

/// Where `name` is among the names; throws Error(Code::bad_argument) that lists them.
[[nodiscard]] std::size_t place_of_name(std::string_view what, std::string_view name,
                                        std::span<const std::string_view> names);

/// What an enumeration is called in messages, and the names of its values in their order.
template <class Enum, std::size_t N>
struct Names {
  std::string_view what;
  std::array<std::string_view, N> names;

  [[nodiscard]] std::string_view of(Enum value) const { return names.at(static_cast<std::size_t>(value)); }
  [[nodiscard]] Enum parse(std::string_view name) const { return static_cast<Enum>(place_of_name(what, name, names)); }
  [[nodiscard]] std::vector<std::string_view> all() const { return {names.begin(), names.end()}; }
};

}  // namespace kedge
