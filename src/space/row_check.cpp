// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <kedge/row_check.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace kedge {

bool RowCheck::near_chance() const {
  // Shuffled rows stay below 4 in all but one of 30,000 cases; where many rows are looked up and neighbours are alike,
  // as in sorted files, wrong partners rise a little above chance.
  constexpr double kAtLeast = 4, kOfEachRow = 0.3, kManyTimesChance = 10;
  if (found_first * static_cast<double>(among) > kManyTimesChance) return false;
  return deviations < std::max(kAtLeast, kOfEachRow * std::sqrt(static_cast<double>(rows)));
}

std::string percent(double share) {
  const double tenths = std::floor(1000 * share + (share < 0.5 ? 0.5 : 0)) / 10;
  return tenths == 100 ? "100 %" : fmt::format("{:.1f} %", tenths);
}

std::string explain(const RowCheck& check, const std::string& space) {
  constexpr double kShuffled = 4;  // above it, something holds the rows together, however little
  std::string text =
      check.near_chance()
          ? fmt::format(
                "the rows of '{}' do not match those of the others: a row is found first among {} in {} of "
                "cases, and chance is {}",
                space, check.among, percent(check.found_first), percent(1 / static_cast<double>(check.among)))
          : fmt::format("the rows of '{}' may be out of place: a row is found first among {} in {} of cases", space,
                        check.among, percent(check.found_first));
  switch (check.remedy) {
    case RowCheck::Remedy::shift:
      return text + fmt::format(
                        "; it would be {} if row n of '{}' belonged to row n {} {} of the others, so its file "
                        "seems to be off by {}: is there a header, or a row too many or too few?",
                        percent(check.found_first_then), space, check.shift > 0 ? '-' : '+', std::abs(check.shift),
                        std::abs(check.shift));
    case RowCheck::Remedy::sorted_ids:
      return text + fmt::format(
                        "; it would be {} if they stood in the order of the sorted support ids: give them in "
                        "the order of the ids themselves",
                        percent(check.found_first_then));
    case RowCheck::Remedy::none: break;
  }
  return text + (check.deviations < kShuffled ? "; does row n of every file embed the same input?"
                                              : "; does row n of every file embed the same input, and are the encoders "
                                                "just weak?");
}

}  // namespace kedge
