// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"

#include <kedge/method.h>

#include <array>

namespace kedge {
namespace {

// Choices and adapters are in the order of their enumerations.
constexpr std::array<std::string_view, 9> kNames{"param",      "consensus", "random", "kmeans", "fps",
                                                 "procrustes", "ridge",     "cca",    "kernel"};
constexpr std::size_t kParam = 0, kConsensus = 1, kChosen = 2,
                      kAdapter = kChosen + static_cast<std::size_t>(Choice::fps) + 1;
static_assert(kNames.size() == kAdapter + static_cast<std::size_t>(Pairwise::kernel) + 1);

struct Place {
  std::size_t operator()(const Param&) const { return kParam; }
  std::size_t operator()(const Consensus&) const { return kConsensus; }
  std::size_t operator()(const ChosenRows& chosen) const { return kChosen + static_cast<std::size_t>(chosen.by); }
  std::size_t operator()(const Adapter& adapter) const { return kAdapter + static_cast<std::size_t>(adapter.by); }
};

}  // namespace

std::string_view to_string(const Method& method) {
  return kNames.at(std::visit(Place(), method));
}

Method parse_method(std::string_view name) {
  const std::size_t place = place_of_name("method", name, kNames);
  if (place == kParam) return Param{};
  if (place == kConsensus) return Consensus{};
  if (place < kAdapter) return ChosenRows{static_cast<Choice>(place - kChosen)};
  return Adapter{static_cast<Pairwise>(place - kAdapter)};
}

std::vector<std::string_view> method_names() {
  return {kNames.begin(), kNames.end()};
}

bool is_convex(const Method& method) {
  return std::holds_alternative<Param>(method) || std::holds_alternative<ChosenRows>(method);
}

bool is_adapter(const Method& method) {
  return std::holds_alternative<Adapter>(method);
}

bool is_adapter(const Method& method, Pairwise by) {
  const auto* adapter = std::get_if<Adapter>(&method);
  return adapter != nullptr && adapter->by == by;
}

std::optional<std::size_t> keep_of(const Method& method) {
  if (const auto* param = std::get_if<Param>(&method)) return param->keep;
  if (const auto* chosen = std::get_if<ChosenRows>(&method)) return chosen->keep;
  return std::nullopt;
}

}  // namespace kedge
