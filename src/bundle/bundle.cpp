// SPDX-License-Identifier: Apache-2.0
#include "bundle/bundle_check.h"

#include <kedge/bundle.h>

#include <algorithm>
#include <utility>

namespace kedge {

bool Bundle::has(std::string_view space) const {
  return std::ranges::any_of(spaces, [&](const Attachment& one) { return one.space() == space; });
}

Attachment Bundle::space(std::string_view name) const {
  std::vector<std::string> names;
  for (const Attachment& space : spaces) {
    if (space.space() == name) return space;
    names.push_back(space.space());
  }
  throw unknown_space(name, names);
}

void Bundle::add(Attachment space) {
  require_fits(*this, space);
  const auto same = std::ranges::find(spaces, space.space(), &Attachment::space);
  if (same != spaces.end()) {
    // A way back from the old one knows nothing of the new one's rows.
    for (Attachment& other : spaces) {
      if (other.reverse && other.reverse->space() == space.space()) {
        other.reverse.reset();
        other.reverse_fit.reset();
      }
    }
    *same = std::move(space);
  } else {
    spaces.push_back(std::move(space));
  }
}

std::vector<std::string> warnings_of_sources(const Bundle& bundle) {
  std::vector<std::optional<RowCheck>> checks;
  for (const std::string& source : bundle.sources) checks.push_back(bundle.space(source).row_check);
  return explain(checks, bundle.sources, bundle.support_ids.size());
}

std::vector<std::string> warnings_of_attached(const Bundle& bundle, const Attachment& attached) {
  return explain(attached.row_check, attached.space(), bundle.support_ids.size());
}

}  // namespace kedge
