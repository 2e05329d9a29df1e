// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.h"
#include "fit/judge.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace kedge {
namespace {

constexpr std::int64_t kMostShift = 4;

bool is_in(const RowRange& range, std::int64_t row) {
  return row >= 0 && static_cast<std::size_t>(row) >= range.begin && static_cast<std::size_t>(row) < range.end;
}

FileRows shifted(FileRows rows, const RowRange& where, std::int64_t shift) {
  for (std::int64_t& row : rows) {
    if (is_in(where, row)) row += shift;
  }
  return rows;
}

/// How these rows of the pool find their partners: not rows outside of it, nor those that are no numbers.
LookedUp try_rows(const CheckedRows& checked, const FileRows& rows, std::span<const Sketch> others) {
  FileRows inside;
  for (const std::int64_t row : rows) inside.push_back(is_in({0, checked.pool.rows}, row) ? row : 0);
  const Matrix64 gathered = checked.pool.gather(inside);
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (inside[i] == rows[i] && all_finite(gathered.row(i))) kept.push_back(i);
  }
  if (kept.size() + kMostShift < RowCheck::kLeastRows) return {};
  std::vector<Sketch> partners;
  for (const Sketch& other : others) partners.emplace_back(other(kept, Eigen::all));
  LookedUp found = look_up(sketch_rows(pick_rows(gathered.view(), kept).view()), partners);
  for (FoundRow& row : found.rows) row.row = kept[row.row];
  return found;
}

/// What the rows say that stand in that part of the file.
RowCheck check_within(const RowRange& where, const LookedUp& found, const FileRows& rows) {
  std::vector<FoundRow> inside;
  std::ranges::copy_if(found.rows, std::back_inserter(inside),
                       [&](const FoundRow& row) { return is_in(where, rows[row.row]); });
  return check_of(inside, found.among);
}

bool is_clearly_better(const RowCheck& other, const RowCheck& than) {
  constexpr double kTwice = 2, kBeyondNoise = 4;
  constexpr double kLeastFound = 0.1;  // rows whose neighbours are alike are found a little more often one row beside
  return other.found_first >= kLeastFound && !other.near_chance() &&
         other.deviations > kTwice * than.deviations + kBeyondNoise && other.found_first > kTwice * than.found_first;
}

/// Looks for an order of the rows in part of a file that explains why so few are found there.
void find_remedy(RowCheck& check, const CheckedRows& checked, std::span<const Sketch> others, const RowRange& where,
                 const RowCheck& there) {
  RowCheck best = there;
  const auto consider = [&](const FileRows& candidate, RowCheck::Remedy remedy, std::int64_t shift) {
    const RowCheck found = check_within(where, try_rows(checked, candidate, others), checked.rows);
    if (!is_clearly_better(found, there) || found.deviations <= best.deviations) return;
    best = found;
    check.remedy = remedy;
    check.shift = shift;
    check.found_first_then = found.found_first;
  };
  if (!checked.by_sorted_ids.empty()) consider(checked.by_sorted_ids, RowCheck::Remedy::sorted_ids, 0);
  for (std::int64_t shift = 1; shift <= kMostShift; ++shift) {
    consider(shifted(checked.rows, where, shift), RowCheck::Remedy::shift, shift);
    consider(shifted(checked.rows, where, -shift), RowCheck::Remedy::shift, -shift);
  }
}

}  // namespace

RowPool pool_of(const Space& space, std::span<const std::int64_t> support_ids) {
  return {space.source().rows(),
          [space](std::span<const std::int64_t> rows) {
            Matrix64 gathered(rows.size(), space.dim());
            for (std::size_t i = 0; i < rows.size(); ++i) {
              space.source().read(static_cast<std::size_t>(rows[i]), gathered.view().middle_rows(i, 1));
            }
            return gathered;
          },
          {support_ids.begin(), support_ids.end()}};
}

RowPool pool_of(const Matrix64& support) {
  RowPool pool{support.rows(),
               [&support](std::span<const std::int64_t> rows) {
                 return pick_rows(support.view(), std::vector<std::size_t>(rows.begin(), rows.end()));
               },
               std::vector<std::int64_t>(support.rows()), true};
  std::iota(pool.support.begin(), pool.support.end(), std::int64_t{0});
  return pool;
}

bool is_certain(const RowCheck& check) {
  constexpr double kShare = 0.5, kDeviationsOfEachRow = 2.5;
  return check.found_first >= kShare ||
         check.deviations >= kDeviationsOfEachRow * std::sqrt(static_cast<double>(check.rows));
}

std::optional<OddRows> find_odd_rows(LookedUp found, const FileRows& rows) {
  std::ranges::sort(found.rows, {}, [&](const FoundRow& row) { return rows[row.row]; });
  const auto block = find_odd_block(found.rows);
  if (!block) return {};
  const auto file_row = [&](std::size_t i) { return static_cast<std::size_t>(rows[found.rows[i].row]); };
  return OddRows{{block->begin == 0 ? 0 : file_row(block->begin),
                  block->end == found.rows.size() ? RowRange::kEnd : file_row(block->end)},
                 block->contrast};
}

RowCheck examine(const LookedUp& found, const CheckedRows& checked, std::span<const Sketch> others) {
  RowCheck check = check_of(found.rows, found.among);
  if (const auto odd = find_odd_rows(found, checked.rows)) {
    const RowCheck there = check_within(odd->rows, found, checked.rows);
    find_remedy(check, checked, others, odd->rows, there);
    if (there.near_chance() || check.remedy != RowCheck::Remedy::none) {
      check.block = RowCheck::Block{odd->rows, there.found_first};
      return check;
    }
  }
  if (!is_certain(check)) find_remedy(check, checked, others, {}, check);
  return check;
}

}  // namespace kedge
