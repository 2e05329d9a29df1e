// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/row_check.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace kedge {
namespace {

/// What a sentence calls the spaces it is about.
struct Words {
  std::string rows, those, space, other, file;
};

/// 'a', 'b' and 'c'.
std::string enumerate(std::span<const std::string> spaces) {
  std::string text;
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    text += fmt::format("{}'{}'", i == 0 ? "" : i + 1 == spaces.size() ? " and " : ", ", spaces[i]);
  }
  return text;
}

std::string could_not_check(const std::string& rows, std::size_t count) {
  return fmt::format(
      "{} could not be checked: {} support rows are too few to tell whether they match, {} would do; does row n of "
      "every file, or each pair, embed the same input?",
      rows, count, RowCheck::kLeastRows);
}

std::string place_of(const RowRange& rows) {
  if (rows.end == RowRange::kEnd) return fmt::format("from about row {} on, ", rows.begin);
  if (rows.begin == 0) return fmt::format("up to about row {}, ", rows.end);
  return fmt::format("from about row {} to row {}, ", rows.begin, rows.end);
}

std::string verdict(const RowCheck& check, const Words& words) {
  if (check.block) {
    return fmt::format("{}{} do not match {}: there a row is found first among {} in {} of cases, and {} over all rows",
                       place_of(check.block->rows), words.rows, words.those, check.among,
                       percent(check.block->found_first), percent(check.found_first));
  }
  if (check.near_chance()) {
    return fmt::format("{} do not match {}: a row is found first among {} in {} of cases, and chance is {}", words.rows,
                       words.those, check.among, percent(check.found_first),
                       percent(1 / static_cast<double>(check.among)));
  }
  return fmt::format("{} may be out of place: a row is found first among {} in {} of cases", words.rows, check.among,
                     percent(check.found_first));
}

std::string explain(const RowCheck& check, const Words& words) {
  constexpr double kShuffled = 4;  // above it, something holds the rows together, however little
  const std::string text = verdict(check, words);
  switch (check.remedy) {
    case RowCheck::Remedy::shift:
      return text +
             fmt::format(
                 "; it would be {} if row n of {} belonged to row n {} {} of {}, so {} seems to be off by {}: {}",
                 percent(check.found_first_then), words.space, check.shift > 0 ? '-' : '+', std::abs(check.shift),
                 words.other, words.file, std::abs(check.shift),
                 check.block ? "was a row lost or added there?" : "is there a header, or a row too many or too few?");
    case RowCheck::Remedy::sorted_ids:
      return text + fmt::format(
                        "; it would be {} if they stood in the order of the sorted support ids: give them in the order "
                        "of the ids themselves",
                        percent(check.found_first_then));
    case RowCheck::Remedy::none: break;
  }
  if (check.block) return text + "; was a row lost or added there?";
  return text +
         (check.deviations < kShuffled
              ? "; does row n of every file, or each pair, embed the same input?"
              : "; does row n of every file, or each pair, embed the same input, and are the encoders just weak?");
}

void add_warnings(std::vector<std::string>& to, const std::optional<RowCheck>& check, const std::string& space) {
  if (!check) return;
  if (check->suspicious()) to.push_back(explain(*check, space));
  if (!check->same_as) return;
  to.push_back(fmt::format(
      "'{}' and '{}' hold the same rows, so they teach nothing about each other: was one file given under two names?",
      *check->same_as, space));
}

}  // namespace

bool RowCheck::near_chance() const {
  // Shuffled rows stay below 4 in all but one of 30,000 cases. If many rows are looked up and neighbours are alike, as
  // in sorted files, wrong partners rise a little above chance.
  constexpr double kAtLeast = 4, kOfEachRow = 0.3, kManyTimesChance = 10;
  if (found_first * static_cast<double>(among) > kManyTimesChance) return false;
  return deviations < std::max(kAtLeast, kOfEachRow * std::sqrt(static_cast<double>(rows)));
}

std::string percent(double share) {
  const double tenths = std::floor(1000 * share + (share < 0.5 ? 0.5 : 0)) / 10;
  return tenths == 100 ? "100 %" : fmt::format("{:.1f} %", tenths);
}

std::string explain(const RowCheck& check, const std::string& space) {
  return explain(check, {fmt::format("the rows of '{}'", space), "those of the others", fmt::format("'{}'", space),
                         "the others", "its file"});
}

std::string explain(const WrongPairs& wrong, const std::string& space) {
  if (!wrong.left_out && wrong.share < WrongPairs::kWorthTelling) return "";
  if (wrong.rows.empty()) return wrong.left_out ? fmt::format("no pair of '{}' looks wrong", space) : "";
  const std::string whose = wrong.partner.empty() ? fmt::format("the rows of '{}'", space)
                                                  : fmt::format("the pairs of '{}' and '{}'", wrong.partner, space);
  constexpr std::size_t kMostNamed = 5;
  const std::size_t named = std::min(wrong.rows.size(), kMostNamed);
  const std::string rows =
      fmt::format("{} {}{}", wrong.rows.size() == 1 ? "row" : "rows",
                  fmt::join(std::span(wrong.rows).first(named), ", "), named < wrong.rows.size() ? " and others" : "");
  if (wrong.left_out) {
    return fmt::format("left out {} of {}, {} in all, which look wrong: {}", wrong.rows.size(), whose, wrong.pairs,
                       rows);
  }
  return fmt::format("about {} of {} look wrong, {} among them: does each embed the same input as its partner?",
                     percent(wrong.share), whose, rows);
}

std::vector<std::string> explain(std::span<const std::optional<RowCheck>> checks, std::span<const std::string> spaces,
                                 std::size_t rows) {
  if (spaces.size() < 2) return {};
  const std::string all = fmt::format("the rows of {}", enumerate(spaces));
  if (rows < RowCheck::kLeastRows) return {could_not_check(all, rows)};
  std::vector<std::string> warnings;
  const auto is_off = [](const auto& check) { return check && check->suspicious(); };
  if (std::ranges::all_of(checks, is_off)) {
    const bool pair = spaces.size() == 2;
    RowCheck check = checks.back().value();
    if (!pair) check.remedy = RowCheck::Remedy::none;
    warnings.push_back(explain(check, {all, pair ? "each other" : "one another", fmt::format("'{}'", spaces.back()),
                                       fmt::format("'{}'", spaces.front()), "one of the files"}));
    return warnings;
  }
  for (std::size_t i = 0; i < spaces.size(); ++i) add_warnings(warnings, checks[i], spaces[i]);
  return warnings;
}

std::vector<std::string> explain(const std::optional<RowCheck>& check, const std::string& space, std::size_t rows) {
  if (rows < RowCheck::kLeastRows) return {could_not_check(fmt::format("the rows of '{}'", space), rows)};
  std::vector<std::string> warnings;
  add_warnings(warnings, check, space);
  return warnings;
}

}  // namespace kedge
