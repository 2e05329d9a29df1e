// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"

#include <kedge/match.h>

namespace kedge {
namespace {

constexpr Names<MatchVerdict, 4> kVerdicts{"verdict", {"matched", "disjoint", "not-matched", "made-worse"}};

std::string kept_back_words(const KeptBack& kept) {
  return fmt::format("of {} known pairs kept back, {:.0f} % were found by the others alone and {:.0f} % after matching",
                     kept.pairs, 100 * kept.found_before, 100 * kept.found_after);
}

std::string evidence(const Match& match) {
  if (match.kept_back) return kept_back_words(*match.kept_back);
  return fmt::format("two runs of {} send {:.0f} % of rows to the same place", match.runs, 100 * match.agreement);
}

}  // namespace

std::string_view to_string(MatchVerdict verdict) {
  return kVerdicts.of(verdict);
}

std::string describe(const Match& match) {
  const std::string mutual = fmt::format("{:.0f} % of rows are the nearest of their nearest", 100 * match.mutual);
  switch (match.verdict) {
    case MatchVerdict::matched: return fmt::format("matched: {}; {}", evidence(match), mutual);
    case MatchVerdict::disjoint:
      return fmt::format("disjoint: {}, and {}; no pairs are given, but the rotation between the spaces is good to use",
                         evidence(match), mutual);
    case MatchVerdict::made_worse:
      return fmt::format("made worse: {}; only the known pairs are used, and more of them may help",
                         kept_back_words(match.kept_back.value()));
    case MatchVerdict::not_matched: break;
  }
  if (match.kept_back) {
    return fmt::format("not matched: {}; are the pairs right, and do both spaces hold these inputs?",
                       kept_back_words(*match.kept_back));
  }
  return fmt::format("not matched: {}, and {}; with 20 known pairs this often works", evidence(match), mutual);
}

}  // namespace kedge
