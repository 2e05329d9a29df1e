// SPDX-License-Identifier: Apache-2.0
#include "map/judge.h"

#include "map/mixture_fit.h"
#include "space/row_sketch.h"

#include <kedge/error.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kedge {
namespace {

using Sketch = EigenRows<float>;
using FileRows = std::vector<std::int64_t>;

constexpr std::int64_t kMostShift = 4;
constexpr Eigen::Index kSketchWidth = 64;  // of the sketch a bundle keeps

/// Rows that find their partners this often, or are this much more alike than shuffled ones, are in their place. Where
/// they are not, other places are tried, which takes several times as long.
bool is_certain(const RowCheck& check) {
  constexpr double kShare = 0.5, kDeviationsOfEachRow = 2.5;
  return check.found_first >= kShare ||
         check.deviations >= kDeviationsOfEachRow * std::sqrt(static_cast<double>(check.rows));
}

std::vector<std::size_t> positions_of(const Bundle& bundle) {
  return checked_positions(bundle.support_ids.size());
}

/// Which rows of the space's file belong to the positions.
FileRows rows_at(const Bundle& bundle, std::span<const std::size_t> positions, const Space& space, bool support_rows) {
  FileRows rows;
  for (const std::size_t position : positions) {
    rows.push_back(support_rows ? space.file_row(position) : bundle.support_ids[position]);
  }
  return rows;
}

/// The same if someone had saved the support in ascending order of its ids.
FileRows rows_by_sorted_ids(const Bundle& bundle, std::span<const std::size_t> positions, const Space& space) {
  std::vector<std::int64_t> sorted = bundle.support_ids;
  std::ranges::sort(sorted);
  FileRows rows;
  for (const std::size_t position : positions) {
    const auto place = std::ranges::lower_bound(sorted, bundle.support_ids[position]) - sorted.begin();
    rows.push_back(space.file_row(static_cast<std::size_t>(place)));
  }
  return rows;
}

FileRows shifted(FileRows rows, std::int64_t shift) {
  for (std::int64_t& row : rows) row += shift;
  return rows;
}

/// How well rows of a file find their partners. Rows outside the file have none.
RowCheck try_rows(const Space& space, const FileRows& rows, std::span<const Sketch> others) {
  FileRows inside;
  std::vector<Eigen::Index> kept;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || static_cast<std::size_t>(rows[i]) >= space.source().rows()) continue;
    inside.push_back(rows[i]);
    kept.push_back(static_cast<Eigen::Index>(i));
  }
  if (inside.size() + kMostShift < RowCheck::kLeastRows) return {};
  std::vector<Sketch> partners;
  for (const Sketch& other : others) partners.emplace_back(other(kept, Eigen::all));
  const Matrix64 own = space.gather(inside);
  return look_up(sketch_rows(own.view()), partners);
}

bool is_clearly_better(const RowCheck& other, const RowCheck& than) {
  constexpr double kTwice = 2, kBeyondNoise = 4;
  return !other.near_chance() && other.deviations > kTwice * than.deviations + kBeyondNoise &&
         other.found_first > kTwice * than.found_first;
}

/// Looks for an order of the rows that explains why so few are found.
void find_remedy(RowCheck& check, const Space& space, const FileRows& rows, const FileRows* by_sorted_ids,
                 std::span<const Sketch> others) {
  RowCheck best = check;
  const auto consider = [&](const FileRows& candidate, RowCheck::Remedy remedy, std::int64_t shift) {
    RowCheck found;
    try {
      found = try_rows(space, candidate, others);
    } catch (const Error&) {
      return;  // rows that nobody chose may hold anything
    }
    if (!is_clearly_better(found, check) || found.deviations <= best.deviations) return;
    best = found;
    check.remedy = remedy;
    check.shift = shift;
    check.found_first_then = found.found_first;
  };
  if (by_sorted_ids != nullptr) consider(*by_sorted_ids, RowCheck::Remedy::sorted_ids, 0);
  for (std::int64_t shift = 1; shift <= kMostShift; ++shift) {
    consider(shifted(rows, shift), RowCheck::Remedy::shift, shift);
    consider(shifted(rows, -shift), RowCheck::Remedy::shift, -shift);
  }
}

/// A few directions of all sources side by side.
Matrix joint_sketch(std::span<const Sketch> sketches) {
  Eigen::Index width = 0;
  for (const Sketch& sketch : sketches) width += sketch.cols();
  Sketch joined(sketches.front().rows(), width);
  Eigen::Index column = 0;
  for (const Sketch& sketch : sketches) {
    joined.middleCols(column, sketch.cols()) = sketch;
    column += sketch.cols();
  }
  const Sketch narrow = project_rows(joined, kSketchWidth);
  Matrix result(static_cast<std::size_t>(narrow.rows()), static_cast<std::size_t>(narrow.cols()));
  as_eigen(result.view()) = narrow;
  return result;
}

/// What a bundle knows of its support rows; empty where it knows nothing.
Sketch known_rows(const Bundle& bundle, std::span<const std::size_t> positions) {
  const Matrix& known = bundle.targets.rows() != 0 ? bundle.targets : bundle.sketch;
  if (known.rows() == 0) return {};
  Matrix64 rows(positions.size(), known.cols());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::size_t from = bundle.targets.rows() != 0 ? positions[i] : i;
    as_eigen(rows.row(i)) = as_eigen(known.row(from)).cast<double>();
  }
  return sketch_rows(rows.view());
}

struct CheckedSources {
  std::vector<std::optional<RowCheck>> checks;
  std::vector<Sketch> sketches;
};

/// `ids` are the rows to check, by their numbers in the files.
CheckedSources check_sources(std::span<const Space> spaces, const FileRows& ids) {
  CheckedSources result{std::vector<std::optional<RowCheck>>(spaces.size()), {}};
  if (spaces.size() < 2 || ids.size() < RowCheck::kLeastRows) return result;
  for (const Space& space : spaces) result.sketches.push_back(sketch_rows(space.gather(ids).view()));
  const auto others_of = [&](std::size_t i) {
    std::vector<Sketch> others;
    for (std::size_t j = 0; j < spaces.size(); ++j) {
      if (j != i) others.push_back(result.sketches[j]);
    }
    return others;
  };
  std::size_t worst = 0;
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    result.checks[i] = look_up(result.sketches[i], others_of(i));
    if (result.checks[i]->deviations < result.checks[worst]->deviations) worst = i;
  }
  // One space that is off also makes the others look a little off, each by as much as would please it: they are right.
  RowCheck& check = result.checks[worst].value();
  if (!is_certain(check)) find_remedy(check, spaces[worst], ids, nullptr, others_of(worst));
  return result;
}

}  // namespace

void judge_sources(Bundle& bundle, std::span<const Space> spaces, std::span<const Statistics> statistics) {
  const FileRows ids = rows_at(bundle, positions_of(bundle), spaces.front(), false);
  const CheckedSources checked = check_sources(spaces, ids);
  if (bundle.targets.rows() == 0 && !checked.sketches.empty()) bundle.sketch = joint_sketch(checked.sketches);
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    bundle.spaces[i].row_check = checked.checks[i];
    if (bundle.spaces[i].by != AttachBy::mixture || bundle.targets.rows() == 0) continue;
    bundle.spaces[i].mixture = mixture_fit(bundle, bundle.spaces[i].map, spaces[i], statistics[i], false);
  }
}

void judge_attached(Attachment& attached, const Bundle& bundle, const Space& space, const Statistics& statistics,
                    bool support_rows) {
  if (attached.by == AttachBy::mixture && bundle.targets.rows() != 0) {
    attached.mixture = mixture_fit(bundle, attached.map, space, statistics, support_rows);
  }
  const std::vector<std::size_t> positions = positions_of(bundle);
  const std::vector<Sketch> others{known_rows(bundle, positions)};
  if (positions.size() < RowCheck::kLeastRows || others.front().rows() == 0) return;
  const FileRows rows = rows_at(bundle, positions, space, support_rows);
  RowCheck check = try_rows(space, rows, others);
  if (!is_certain(check)) {
    const bool ids_have_order = support_rows && !std::ranges::is_sorted(bundle.support_ids);
    const FileRows sorted = ids_have_order ? rows_by_sorted_ids(bundle, positions, space) : FileRows();
    find_remedy(check, space, rows, ids_have_order ? &sorted : nullptr, others);
  }
  attached.row_check = check;
}

std::vector<std::optional<RowCheck>> check_rows(std::span<const Space> spaces) {
  require_parallel(spaces);
  FileRows ids;
  for (const std::size_t position : checked_positions(spaces.front().rows())) {
    ids.push_back(spaces.front().file_row(position));
  }
  return check_sources(spaces, ids).checks;
}

}  // namespace kedge
