// SPDX-License-Identifier: Apache-2.0
#include "base/names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/error.h>

#include <algorithm>

namespace kedge {

std::size_t place_of_name(std::string_view what, std::string_view name, std::span<const std::string_view> names) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  throw Error(Code::bad_argument,
              fmt::format("unknown {} '{}'; expected one of: {}", what, name, fmt::join(names, ", ")));
}

}  // namespace kedge
