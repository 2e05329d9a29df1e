// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/bundle.h>
#include <kedge/error.h>
#include <kedge/wording.h>

#include <algorithm>
#include <utility>

namespace kedge {

bool Bundle::has(std::string_view space) const {
  return std::ranges::any_of(spaces, [&](const Attachment& one) { return one.space() == space; });
}

const Attachment& Bundle::space(std::string_view name) const {
  std::vector<std::string> names;
  for (const Attachment& space : spaces) {
    if (space.space() == name) return space;
    names.push_back(space.space());
  }
  throw UnknownSpace(fmt::format("the bundle has no space '{}'; it has: {}{}", name, fmt::join(names, ", "),
                                 nearest(name, names) ? did_you_mean(name, names) : "; attach a new one first"));
}

void Bundle::add(Attachment space) {
  const auto same = std::ranges::find(spaces, space.space(), &Attachment::space);
  if (same != spaces.end()) {
    *same = std::move(space);
  } else {
    spaces.push_back(std::move(space));
  }
}

}  // namespace kedge
