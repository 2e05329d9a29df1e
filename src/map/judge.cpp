// SPDX-License-Identifier: Apache-2.0
#include "map/judge.h"

#include "backend/threads.h"
#include "base/parallel.h"
#include "map/mixture_fit.h"
#include "space/row_sketch.h"

#include <kedge/error.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
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

FileRows rows_at(const RowPool& pool, std::span<const std::size_t> positions) {
  FileRows rows;
  for (const std::size_t position : positions) rows.push_back(pool.support[position]);
  return rows;
}

/// The rows that would be there if someone had saved the support in ascending order of its ids; none where it is in
/// that order, or where the pool is not the support alone.
FileRows rows_by_sorted_ids(const Bundle& bundle, std::span<const std::size_t> positions, const RowPool& pool) {
  if (!pool.support_alone || std::ranges::is_sorted(bundle.support_ids)) return {};
  std::vector<std::int64_t> sorted = bundle.support_ids;
  std::ranges::sort(sorted);
  FileRows rows;
  for (const std::size_t position : positions) {
    const auto place = std::ranges::lower_bound(sorted, bundle.support_ids[position]) - sorted.begin();
    rows.push_back(pool.support[static_cast<std::size_t>(place)]);
  }
  return rows;
}

FileRows shifted(FileRows rows, std::int64_t shift) {
  for (std::int64_t& row : rows) row += shift;
  return rows;
}

/// How well rows of a pool find their partners. Rows outside of it have none.
RowCheck try_rows(const RowPool& pool, const FileRows& rows, std::span<const Sketch> others) {
  FileRows inside;
  std::vector<Eigen::Index> kept;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || static_cast<std::size_t>(rows[i]) >= pool.rows) continue;
    inside.push_back(rows[i]);
    kept.push_back(static_cast<Eigen::Index>(i));
  }
  if (inside.size() + kMostShift < RowCheck::kLeastRows) return {};
  std::vector<Sketch> partners;
  for (const Sketch& other : others) partners.emplace_back(other(kept, Eigen::all));
  const Matrix64 own = pool.gather(inside);
  return look_up(sketch_rows(own.view()), partners);
}

bool is_clearly_better(const RowCheck& other, const RowCheck& than) {
  constexpr double kTwice = 2, kBeyondNoise = 4;
  return !other.near_chance() && other.deviations > kTwice * than.deviations + kBeyondNoise &&
         other.found_first > kTwice * than.found_first;
}

/// Looks for an order of the rows that explains why so few are found.
void find_remedy(RowCheck& check, const RowPool& pool, const FileRows& rows, const FileRows& by_sorted_ids,
                 std::span<const Sketch> others) {
  RowCheck best = check;
  const auto consider = [&](const FileRows& candidate, RowCheck::Remedy remedy, std::int64_t shift) {
    RowCheck found;
    try {
      found = try_rows(pool, candidate, others);
    } catch (const Error&) {
      return;  // rows that nobody chose may hold anything
    }
    if (!is_clearly_better(found, check) || found.deviations <= best.deviations) return;
    best = found;
    check.remedy = remedy;
    check.shift = shift;
    check.found_first_then = found.found_first;
  };
  if (!by_sorted_ids.empty()) consider(by_sorted_ids, RowCheck::Remedy::sorted_ids, 0);
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

  [[nodiscard]] std::vector<Sketch> others(std::size_t than) const {
    std::vector<Sketch> others;
    for (std::size_t i = 0; i < sketches.size(); ++i) {
      if (i != than) others.push_back(sketches[i]);
    }
    return others;
  }
};

/// On a thread each, as a sketch is too small for BLAS to share out.
template <class Step>
void for_each_space(std::size_t spaces, const Step& step) {
  parallel_blocks(spaces, 1, threads(), [&] { return [&](std::size_t i, std::size_t) { step(i); }; });
}

/// `picked` are rows of each space, by the same inputs.
CheckedSources look_up_each(std::span<const Matrix64> picked) {
  CheckedSources result{std::vector<std::optional<RowCheck>>(picked.size()), {}};
  if (picked.size() < 2 || picked.front().rows() < RowCheck::kLeastRows) return result;
  result.sketches.resize(picked.size());
  for_each_space(picked.size(), [&](std::size_t i) { result.sketches[i] = sketch_rows(picked[i].view()); });
  for_each_space(picked.size(),
                 [&](std::size_t i) { result.checks[i] = look_up(result.sketches[i], result.others(i)); });
  return result;
}

/// One space that is off also makes the others look a little off, each by as much as would please it: they are right.
std::optional<std::size_t> doubtful(const CheckedSources& checked) {
  if (checked.sketches.empty()) return {};
  const auto worst =
      std::ranges::min_element(checked.checks, {}, [](const auto& check) { return check.value().deviations; });
  if (is_certain(worst->value())) return {};
  return static_cast<std::size_t>(worst - checked.checks.begin());
}

Matrix64 pick(const Matrix64& rows, std::span<const std::size_t> positions) {
  Matrix64 picked(positions.size(), rows.cols());
  for (std::size_t i = 0; i < positions.size(); ++i) std::ranges::copy(rows.row(positions[i]), picked.row(i).begin());
  return picked;
}

}  // namespace

RowPool pool_of(const Space& space, std::span<const std::int64_t> support_ids) {
  return {space.source().rows(),
          [space](std::span<const std::int64_t> rows) { return space.gather(rows); },
          {support_ids.begin(), support_ids.end()}};
}

RowPool pool_of(const Matrix64& support) {
  RowPool pool{support.rows(),
               [&support](std::span<const std::int64_t> rows) {
                 return pick(support, std::vector<std::size_t>(rows.begin(), rows.end()));
               },
               std::vector<std::int64_t>(support.rows()), true};
  std::iota(pool.support.begin(), pool.support.end(), std::int64_t{0});
  return pool;
}

void judge_sources(Bundle& bundle, std::span<const Matrix64> supports, std::span<const Statistics> statistics,
                   std::span<const RowPool> pools) {
  const std::vector<std::size_t> positions = positions_of(bundle);
  std::vector<Matrix64> picked;
  for (const Matrix64& support : supports) picked.push_back(pick(support, positions));
  CheckedSources checked = look_up_each(picked);
  if (const auto worst = doubtful(checked)) {
    find_remedy(checked.checks[*worst].value(), pools[*worst], rows_at(pools[*worst], positions),
                rows_by_sorted_ids(bundle, positions, pools[*worst]), checked.others(*worst));
  }
  if (bundle.targets.rows() == 0 && !checked.sketches.empty()) bundle.sketch = joint_sketch(checked.sketches);
  for_each_space(supports.size(), [&](std::size_t i) {
    Attachment& space = bundle.spaces[i];
    space.row_check = checked.checks[i];
    if (space.by != AttachBy::mixture || bundle.targets.rows() == 0) return;
    space.mixture = mixture_fit(bundle, *space.map, supports[i], statistics[i]);
  });
}

void judge_attached(Attachment& attached, const Bundle& bundle, const Matrix64& support, const Statistics& statistics,
                    const RowPool& pool) {
  if (attached.by == AttachBy::mixture && bundle.targets.rows() != 0) {
    attached.mixture = mixture_fit(bundle, *attached.map, support, statistics);
  }
  const std::vector<std::size_t> positions = positions_of(bundle);
  const std::vector<Sketch> others{known_rows(bundle, positions)};
  if (positions.size() < RowCheck::kLeastRows || others.front().rows() == 0) return;
  RowCheck check = look_up(sketch_rows(pick(support, positions).view()), others);
  if (!is_certain(check)) {
    find_remedy(check, pool, rows_at(pool, positions), rows_by_sorted_ids(bundle, positions, pool), others);
  }
  attached.row_check = check;
}

std::vector<std::optional<RowCheck>> check_rows(std::span<const Space> spaces) {
  const Work work;
  require_parallel(spaces);
  FileRows ids;
  for (const std::size_t position : checked_positions(spaces.front().rows())) {
    ids.push_back(spaces.front().file_row(position));
  }
  std::vector<Matrix64> picked;
  for (const Space& space : spaces) picked.push_back(space.gather(ids));
  CheckedSources checked = look_up_each(picked);
  if (const auto worst = doubtful(checked)) {
    find_remedy(checked.checks[*worst].value(), pool_of(spaces[*worst], ids), ids, {}, checked.others(*worst));
  }
  return checked.checks;
}

}  // namespace kedge
