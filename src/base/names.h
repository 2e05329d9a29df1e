// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/error.h>

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

namespace kedge {

/// The names of an enumeration's values in order, so that each name stands in one place.
template <class Enum, std::size_t N>
struct Names {
  std::string_view what;
  std::array<std::string_view, N> names;

  [[nodiscard]] std::string_view of(Enum value) const { return names.at(static_cast<std::size_t>(value)); }
  [[nodiscard]] std::vector<std::string_view> all() const { return {names.begin(), names.end()}; }
  [[nodiscard]] Enum parse(std::string_view name) const {
    for (std::size_t i = 0; i < N; ++i) {
      if (names[i] == name) return static_cast<Enum>(i);
    }
    throw Error(Code::bad_argument,
                fmt::format("unknown {} '{}'; expected one of: {}", what, name, fmt::join(names, ", ")));
  }
};

}  // namespace kedge
