// SPDX-License-Identifier: Apache-2.0
#include "fit/robust.h"

#include "base/parallel.h"
#include "base/rows.h"
#include "base/wording.h"
#include "compute/threads.h"
#include "regress/wrong_pairs.h"

#include <algorithm>

namespace kedge {
namespace {

constexpr std::size_t kRounds = 6;      // it mostly settles sooner
constexpr std::size_t kLeastKept = 50;  // rows that a map can be made from
constexpr double kLeastShare = 0.05;    // fewer right rows than this cannot be told from chance

/// For two spaces, the first of which comes first: by support row, whether it looks wrong.
struct Compared {
  std::size_t a, b;
  std::vector<bool> wrong;
};

std::vector<Compared> compare_all(std::span<const Matrix64> supports) {
  std::vector<Compared> pairs;
  for (std::size_t b = 1; b < supports.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) pairs.push_back({a, b, {}});
  }
  parallel_blocks(pairs.size(), 1, threads(), [&] {
    return [&](std::size_t i, std::size_t) {
      Compared& pair = pairs[i];
      pair.wrong = doubt_pairs(supports[pair.a].view(), supports[pair.b].view(), kRounds).wrong;
    };
  });
  return pairs;
}

/// Of one support row, the spaces that agree with at least half of the largest group: the one that most agree with, and
/// those. None if no two agree.
std::vector<bool> largest_group(const std::vector<std::vector<bool>>& agree) {
  const std::size_t spaces = agree.size();
  const auto agreeing = [&](std::size_t i) { return std::ranges::count(agree[i], true); };
  std::size_t hub = 0;
  for (std::size_t i = 1; i < spaces; ++i) hub = agreeing(i) > agreeing(hub) ? i : hub;
  std::vector<bool> group = agree[hub], right(spaces);
  if (agreeing(hub) == 0) return right;
  group[hub] = true;
  for (std::size_t i = 0; i < spaces; ++i) {
    std::size_t with = 0, of = 0;
    for (std::size_t j = 0; j < spaces; ++j) {
      if (j == i || !group[j]) continue;
      ++of;
      with += agree[i][j] ? 1 : 0;
    }
    right[i] = with > 0 && 2 * with >= of;
  }
  return right;
}

void require_enough(const std::string& space, std::size_t right, std::size_t rows) {
  if (right >= kLeastKept && static_cast<double>(right) >= kLeastShare * static_cast<double>(rows)) return;
  refuse(
      "only {} of {} rows of '{}' look right, which is too few to tell them from chance; does row n of every file "
      "embed the same input? If so, fit without {}",
      right, rows, space, flag_words("robust"));
}

void require_tellable(std::size_t rows) {
  if (rows >= kLeastPairs) return;
  refuse("{} support rows are too few to tell wrong pairs from right ones, which takes {}; leave out {}", rows,
         kLeastPairs, flag_words("robust"));
}

WrongPairs wrong_of(const std::vector<bool>& right, const std::string& partner, std::span<const std::int64_t> ids) {
  WrongPairs wrong{partner, 0, right.size(), {}, true};
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (!right[i]) wrong.rows.push_back(ids[i]);
  }
  wrong.share = static_cast<double>(wrong.rows.size()) / static_cast<double>(right.size());
  return wrong;
}

}  // namespace

std::vector<std::size_t> positions_of(const std::vector<bool>& right) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (right[i]) positions.push_back(i);
  }
  return positions;
}

void keep_support(FitInput& input, std::span<const std::size_t> positions) {
  const auto kept = [&](const std::vector<std::int64_t>& all) {
    std::vector<std::int64_t> some;
    for (const std::size_t position : positions) some.push_back(all[position]);
    return some;
  };
  input.support.ids = kept(input.support.ids);
  if (!input.file_rows.empty()) input.file_rows = kept(input.file_rows);
  for (Matrix64& rows : input.support.rows) rows = pick_rows(std::as_const(rows).view(), positions);
}

LearnedAnchors anchors_at(const LearnedAnchors& anchors, std::span<const std::size_t> places) {
  LearnedAnchors some;
  for (const std::size_t place : places) {
    if (place >= anchors.support_ids.size()) refuse("the bundle has no support row {}", place);
    some.support_ids.push_back(anchors.support_ids[place]);
  }
  some.targets = pick_rows(anchors.targets.view(), places);
  return some;
}

void spread_kernel(Attachment& attached, std::span<const std::size_t> places, std::size_t support) {
  const RelativeMap& map = *attached.map;
  if (!map.kernel() || places.size() == support) return;
  Kernel kernel = *map.kernel();
  for (Matrix* matrix : {&kernel.rows, &kernel.coefficients}) {
    Matrix spread(support, matrix->cols());
    for (std::size_t i = 0; i < places.size(); ++i) std::ranges::copy(matrix->row(i), spread.row(places[i]).begin());
    *matrix = std::move(spread);
  }
  attached.map =
      std::make_shared<RelativeMap>(map.space(), map.similarity(), map.weight(), map.bias(), map.mean(), kernel);
}

RightRows leave_out_wrong(FitInput& input, std::span<const Statistics> statistics,
                          std::vector<std::optional<WrongPairs>>& wrong) {
  const std::size_t spaces = input.support.rows.size(), rows = input.support.ids.size();
  require_tellable(rows);
  const std::vector<Compared> pairs = compare_all(input.support.rows);
  RightRows right(spaces, std::vector<bool>(rows));
  std::vector<bool> kept(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<std::vector<bool>> agree(spaces, std::vector<bool>(spaces));
    for (const Compared& pair : pairs) agree[pair.a][pair.b] = agree[pair.b][pair.a] = !pair.wrong[row];
    const std::vector<bool> group = largest_group(agree);
    for (std::size_t i = 0; i < spaces; ++i) right[i][row] = group[i];
    kept[row] = std::ranges::find(group, true) != group.end();
  }
  wrong.assign(spaces, std::nullopt);
  for (std::size_t i = 0; i < spaces; ++i) {
    require_enough(statistics[i].space(), positions_of(right[i]).size(), rows);
    if (spaces == 2 && i == 0) continue;  // one sentence for both
    wrong[i] = wrong_of(right[i], spaces == 2 ? statistics[0].space() : "", input.support.ids);
  }
  const std::vector<std::size_t> positions = positions_of(kept);
  keep_support(input, positions);
  for (std::vector<bool>& own : right) {
    std::vector<bool> left;
    for (const std::size_t position : positions) left.push_back(own[position]);
    own = std::move(left);
  }
  const auto whole = [](const std::vector<bool>& own) { return std::ranges::find(own, false) == own.end(); };
  if (std::ranges::all_of(right, whole)) right.clear();
  return right;
}

std::optional<WrongPairs> look_for_wrong_pairs(const std::string& partner, MatrixView<const double> from,
                                               MatrixView<const double> to, std::span<const std::int64_t> ids) {
  const PairDoubts doubts = doubt_pairs(from, to, 1);
  if (doubts.unsure) return {};
  WrongPairs found{partner, doubts.share, from.rows, {}, false};
  for (std::size_t i = 0; i < doubts.wrong.size(); ++i) {
    if (doubts.wrong[i]) found.rows.push_back(ids[i]);
  }
  constexpr std::size_t kLeastRows = 10;  // a few may be right and odd
  if (found.share < WrongPairs::kWorthTelling || found.rows.size() < kLeastRows) return {};
  if (found.rows.size() == from.rows) return {};  // nothing holds them together: the check of rows says so
  return found;
}

std::vector<std::size_t> right_places(const LearnedAnchors& anchors, const std::string& space, const Matrix64& support,
                                      WrongPairs& wrong) {
  require_tellable(support.rows());
  const Matrix64 targets = matrix_of<double>(as_eigen(anchors.targets.view()));
  std::vector<bool> right = doubt_pairs(support.view(), targets.view(), kRounds).wrong;
  right.flip();
  std::vector<std::size_t> places = positions_of(right);
  require_enough(space, places.size(), right.size());
  wrong = wrong_of(right, "", anchors.support_ids);
  return places;
}

}  // namespace kedge
