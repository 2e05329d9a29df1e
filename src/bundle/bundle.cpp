// SPDX-License-Identifier: Apache-2.0
#include "bundle/bundle_check.h"

#include <kedge/bundle.h>

#include <algorithm>
#include <array>
#include <optional>

namespace kedge {
namespace {

bool is_suspicious(const std::optional<RowCheck>& check) {
  return check && check->suspicious();
}

void add_wrong_pairs(std::vector<std::string>& to, const Bundle& bundle, const Attachment& space) {
  if (!space.wrong_pairs || space.wrong_pairs->left_out) return;
  std::string text = explain(*space.wrong_pairs, space.space());
  if (text.empty()) return;
  const bool regresses = space.ridge() != nullptr || space.kernel() != nullptr || is_adapter(bundle.made().method);
  if (regresses && bundle.anchors().has_targets()) text += " The option 'robust' leaves such pairs out";
  to.push_back(std::move(text));
}

}  // namespace

std::string_view to_string(const AttachedBy& by) {
  constexpr std::array<std::string_view, std::variant_size_v<AttachedBy>> kNames{"mixture", "ridge", "kernel",
                                                                                 "direct"};
  return kNames[by.index()];
}

const MixtureFit* Attachment::mixture() const {
  const auto* made = std::get_if<ByMixture>(&by);
  return made != nullptr && made->fit ? &*made->fit : nullptr;
}

const RidgeFit* Attachment::ridge() const {
  const auto* made = std::get_if<ByRidge>(&by);
  return made != nullptr ? &made->fit : nullptr;
}

const AttachChoice* Attachment::choice() const {
  const std::optional<AttachChoice>* choice = nullptr;
  if (const auto* made = std::get_if<ByRidge>(&by)) choice = &made->choice;
  if (const auto* made = std::get_if<ByKernel>(&by)) choice = &made->choice;
  return choice != nullptr && *choice ? &**choice : nullptr;
}

const KernelFit* Attachment::kernel() const {
  const auto* made = std::get_if<ByKernel>(&by);
  return made != nullptr ? &made->fit : nullptr;
}

const RelativeMap* Attachment::reverse() const {
  const auto* made = std::get_if<ByKernel>(&by);
  return made != nullptr ? made->reverse.get() : nullptr;
}

const KernelFit* Attachment::reverse_fit() const {
  const auto* made = std::get_if<ByKernel>(&by);
  return made != nullptr && made->reverse_fit ? &*made->reverse_fit : nullptr;
}

Bundle::Bundle(Recipe made, LearnedAnchors anchors, std::vector<Attachment> spaces)
    : made_(std::make_shared<const Recipe>(std::move(made))),
      anchors_(std::make_shared<const LearnedAnchors>(std::move(anchors))),
      spaces_(std::move(spaces)) {
  require_consistent(*made_, *anchors_);
  for (const Attachment& space : spaces_) require_fits(*made_, *anchors_, space);
  require_spaces(made_->sources, spaces_);
}

bool Bundle::has(std::string_view space) const {
  return std::ranges::find(spaces_, space, &Attachment::space) != spaces_.end();
}

Attachment Bundle::space(std::string_view name) const {
  std::vector<std::string> names;
  for (const Attachment& space : spaces_) {
    if (space.space() == name) return space;
    names.push_back(space.space());
  }
  throw unknown_space(name, names);
}

Bundle Bundle::with(Attachment space) const {
  require_fits(*made_, *anchors_, space);
  Bundle grown = *this;
  const auto same = std::ranges::find(grown.spaces_, space.space(), &Attachment::space);
  if (same == grown.spaces_.end()) {
    grown.spaces_.push_back(std::move(space));
    return grown;
  }
  // A way back from the old one, and what was expected of translations to it, know nothing of the new one's rows.
  for (Attachment& other : grown.spaces_) {
    if (same->map != space.map) {
      std::erase_if(other.translations, [&](const auto& one) { return one.to == space.space(); });
    }
    auto* made = std::get_if<ByKernel>(&other.by);
    if (made == nullptr || !made->reverse || made->reverse->space() != space.space()) continue;
    made->reverse.reset();
    made->reverse_fit.reset();
  }
  *same = std::move(space);
  return grown;
}

std::vector<std::string> warnings_of_sources(const Bundle& bundle) {
  std::vector<std::optional<RowCheck>> checks;
  for (const std::string& source : bundle.made().sources) checks.push_back(bundle.space(source).row_check);
  std::vector<std::string> warnings = explain(checks, bundle.made().sources, bundle.anchors().support_ids.size());
  if (std::ranges::any_of(checks, is_suspicious)) return warnings;  // which explains the pairs too
  for (const std::string& source : bundle.made().sources) add_wrong_pairs(warnings, bundle, bundle.space(source));
  return warnings;
}

std::vector<std::string> warnings_of_attached(const Bundle& bundle, const Attachment& attached) {
  std::vector<std::string> warnings =
      explain(attached.row_check, attached.space(), bundle.anchors().support_ids.size());
  if (!is_suspicious(attached.row_check)) add_wrong_pairs(warnings, bundle, attached);
  return warnings;
}

}  // namespace kedge
