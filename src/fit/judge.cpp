// SPDX-License-Identifier: Apache-2.0
#include "fit/judge.h"

#include "base/parallel.h"
#include "compute/lapack.h"
#include "compute/threads.h"
#include "fit/robust.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace kedge {
namespace {

constexpr Eigen::Index kSketchWidth = 64;  // of the sketch a bundle keeps

/// The rows that would be there if someone had saved the support in ascending order of its ids; none where it is in
/// that order, or where the pool is not the support alone.
FileRows rows_by_sorted_ids(const FileRows& ids, std::span<const std::size_t> positions, const RowPool& pool) {
  if (!pool.support_alone || std::ranges::is_sorted(ids)) return {};
  FileRows sorted = ids;
  std::ranges::sort(sorted);
  FileRows rows;
  for (const std::size_t position : positions) {
    const auto place = std::ranges::lower_bound(sorted, ids[position]) - sorted.begin();
    rows.push_back(pool.support[static_cast<std::size_t>(place)]);
  }
  return rows;
}

CheckedRows checked_rows(const std::string& space, const RowPool& pool, const FileRows& ids,
                         std::span<const std::size_t> positions) {
  CheckedRows checked{space, pool, {}, rows_by_sorted_ids(ids, positions, pool)};
  for (const std::size_t position : positions) checked.rows.push_back(pool.support[position]);
  return checked;
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
  return matrix_of<float>(project_rows(joined, kSketchWidth));
}

/// What is known of the support rows; empty if nothing is.
Sketch known_rows(const LearnedAnchors& anchors, std::span<const std::size_t> positions) {
  const Matrix& known = anchors.has_targets() ? anchors.targets : anchors.sketch;
  if (known.rows() == 0) return {};
  Matrix64 rows(positions.size(), known.cols());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::size_t from = anchors.has_targets() ? positions[i] : i;
    as_eigen(rows.row(i)) = as_eigen(known.row(from)).cast<double>();
  }
  return sketch_rows(rows.view());
}

/// On a thread each, as a sketch is too small for BLAS to share out.
template <class Step>
void for_each_space(std::size_t spaces, const Step& step) {
  parallel_blocks(spaces, 1, threads(), [&] { return [&](std::size_t i, std::size_t) { step(i); }; });
}

using Places = std::vector<std::size_t>;

/// Spaces that are compared with each other.
struct Sources {
  std::vector<Sketch> sketches;
  std::vector<Places> partners;  ///< with which of the others each is compared
  std::vector<LookedUp> found;

  [[nodiscard]] std::vector<Sketch> others(std::size_t than) const {
    std::vector<Sketch> others;
    for (const std::size_t partner : partners[than]) others.push_back(sketches[partner]);
    return others;
  }
  [[nodiscard]] RowCheck check(std::size_t i) const { return check_of(found[i].rows, found[i].among); }
  void look_up_each() {
    for_each_space(sketches.size(), [&](std::size_t i) { found[i] = look_up(sketches[i], others(i)); });
  }
};

/// `members`, or all where there are none, without one of them.
Places without(std::size_t one, std::size_t spaces, const Places& members = {}) {
  Places rest = members;
  if (members.empty()) {
    rest.resize(spaces);
    std::iota(rest.begin(), rest.end(), std::size_t{0});
  }
  std::erase(rest, one);
  return rest;
}

/// For each space, those that its rows match, two by two; each is among its own.
std::vector<Places> matches_of(std::span<const Sketch> sketches) {
  std::vector<Places> matches(sketches.size());
  for_each_space(sketches.size(), [&](std::size_t i) {
    for (std::size_t j = 0; j < sketches.size(); ++j) {
      const LookedUp found = i == j ? LookedUp() : look_up(sketches[i], sketches.subspan(j, 1));
      if (i == j || !check_of(found.rows, found.among).near_chance()) matches[i].push_back(j);
    }
  });
  return matches;
}

/// One space that is off makes the others look off too. So they are all compared with those that most of them match;
/// where no such majority is, each with those that it does not match, and nobody knows who is wrong. Returns whether
/// each is of the majority.
std::vector<bool> find_majority(Sources& sources) {
  const std::size_t spaces = sources.sketches.size();
  const std::vector<Places> matches = matches_of(sources.sketches);
  const Places& most = *std::ranges::max_element(matches, {}, &Places::size);
  std::vector<bool> is_of(spaces, true);
  if (most.size() == spaces) return is_of;
  const bool majority = 2 * most.size() > spaces;
  for (std::size_t i = 0; i < spaces; ++i) {
    is_of[i] = !majority || std::ranges::find(most, i) != most.end();
    if (majority) {
      sources.partners[i] = without(i, spaces, most);
    } else if (matches[i].size() < spaces) {
      std::erase_if(sources.partners[i],
                    [&](std::size_t j) { return std::ranges::find(matches[i], j) != matches[i].end(); });
    }
  }
  sources.look_up_each();
  return is_of;
}

/// The one to look at among spaces of which most are right: with the oddest block of rows, or found worst.
std::size_t most_doubtful(const Sources& sources, std::span<const CheckedRows> checked,
                          const std::vector<bool>& considered) {
  std::size_t worst = 0;
  std::pair<double, double> least{std::numeric_limits<double>::infinity(), 0};
  for (std::size_t i = 0; i < considered.size(); ++i) {
    if (!considered[i]) continue;
    const auto odd = find_odd_rows(sources.found[i], checked[i].rows);
    const std::pair found{odd ? -odd->contrast : 0, sources.check(i).deviations};
    if (found >= least) continue;
    least = found;
    worst = i;
  }
  return worst;
}

Sources look_up_sources(std::span<const Matrix64> picked) {
  Sources sources;
  if (picked.size() < 2 || picked.front().rows() < RowCheck::kLeastRows) return sources;
  sources.sketches.resize(picked.size());
  sources.found.resize(picked.size());
  for (std::size_t i = 0; i < picked.size(); ++i) sources.partners.push_back(without(i, picked.size()));
  for_each_space(picked.size(), [&](std::size_t i) { sources.sketches[i] = sketch_rows(picked[i].view()); });
  sources.look_up_each();
  return sources;
}

/// The name of an earlier space that holds the very same rows.
std::optional<std::string> find_equal(std::span<const Matrix64> picked, std::span<const CheckedRows> checked,
                                      std::size_t i) {
  for (std::size_t j = 0; j < i; ++j) {
    if (std::ranges::equal(picked[i].cells(), picked[j].cells())) return checked[j].space;
  }
  return std::nullopt;
}

/// `picked` are the rows of each space that are checked.
std::vector<std::optional<RowCheck>> judge_rows(Sources& sources, std::span<const Matrix64> picked,
                                                std::span<const CheckedRows> checked) {
  std::vector<std::optional<RowCheck>> checks(picked.size());
  const std::size_t spaces = sources.sketches.size();
  std::vector<bool> right(spaces, true);
  bool certain = true;
  for (std::size_t i = 0; i < spaces; ++i) certain = certain && is_certain(sources.check(i));
  if (!certain && spaces > 2) right = find_majority(sources);
  for (std::size_t i = 0; i < spaces; ++i) checks[i] = sources.check(i);
  const std::size_t doubtful = most_doubtful(sources, checked, right);
  for (std::size_t i = 0; i < spaces; ++i) {
    if (right[i] && i != doubtful) continue;
    const RowCheck found = examine(sources.found[i], checked[i], sources.others(i));
    checks[i] = found;
    if (spaces != 2 || !found.suspicious()) continue;
    // Nobody knows which of the two is off: what one is found to be, the other is turned round.
    checks[1 - i].emplace(found).shift = -found.shift;
  }
  for (std::size_t i = 0; i < spaces; ++i) checks[i].value().same_as = find_equal(picked, checked, i);
  return checks;
}

/// Another space of the bundle that has the very map of the new one but for rounding: its rows are the same.
std::optional<std::string> find_same_map(const Bundle& bundle, const RelativeMap& map) {
  constexpr double kRounding = 1e-5;
  const auto near = [](const auto& a, const auto& b) {
    const auto wide = b.template cast<double>();
    return (a.template cast<double>() - wide).norm() <= kRounding * wide.norm();
  };
  for (const Attachment& other : bundle.spaces()) {
    const RelativeMap& known = *other.map;
    if (other.space() == map.space() || known.input_dim() != map.input_dim()) continue;
    const auto mean = as_eigen(std::span<const float>(map.mean())),
               its_mean = as_eigen(std::span<const float>(known.mean()));
    if (near(mean, its_mean) && near(as_eigen(map.weight().view()), as_eigen(known.weight().view()))) {
      return other.space();
    }
  }
  return std::nullopt;
}

// An estimate over a few hundred rows is near enough, and takes a small part of the time of attaching.
constexpr std::size_t kMostRows = 500;

/// The squared lengths of whitened rows: what a row adds to its own similarity.
Eigen::VectorXd squared_lengths(const Matrix64& rows, const Statistics& statistics) {
  Matrix64 centred(rows.rows(), rows.cols());
  auto cells = as_eigen(centred.view());
  cells = as_eigen(rows.view()).rowwise() - as_eigen(statistics.mean());
  const Cholesky factor(shrunk_covariance(statistics.moments(), statistics.options()));
  if (factor.exists()) {
    factor.divide_rows(centred.view());
  } else {
    cells = as_eigen(rows.view());
    whiten(statistics.whitening(), centred.view());
  }
  return cells.rowwise().squaredNorm();
}

/// Explained share of one output's variance, as of a ridge: 1 down to -1; none for one that is constant.
std::optional<double> r2_of(const Eigen::ArrayXd& truth, const Eigen::ArrayXd& found, const Eigen::ArrayXd& counts) {
  const double rows = counts.sum();
  if (rows < 2) return {};
  const double mean = (truth * counts).sum() / rows;
  const double variance = ((truth - mean).square() * counts).sum();
  if (!(variance > 0)) return {};
  return std::max(-1.0, 1 - ((truth - found).square() * counts).sum() / variance);
}

/// How well the map of a space, made by mixture, meets the targets at support rows. A row is left out of the mixture
/// while it is scored, because an anchor resembles its own members in any space.
MixtureFit mixture_fit(const LearnedAnchors& anchors, bool convex, const RelativeMap& map, const Matrix64& support,
                       const Statistics& statistics) {
  const std::size_t rows = std::min(support.rows(), kMostRows);
  std::vector<std::size_t> positions(rows);
  for (std::size_t i = 0; i < rows; ++i) positions[i] = i * support.rows() / rows;
  const Matrix64 x = pick_rows(support.view(), positions);
  const Eigen::VectorXd lengths = squared_lengths(x, statistics);
  const Matrix rr = map.apply(matrix_of<float>(as_eigen(x.view())).view());
  const auto count = static_cast<Eigen::Index>(rows);
  MixtureFit fit{std::vector<float>(rr.cols()), 0};
  std::size_t varying = 0;
  for (std::size_t anchor = 0; anchor < rr.cols(); ++anchor) {
    Eigen::ArrayXd truth(count), found(count), counts = Eigen::ArrayXd::Ones(count);
    for (Eigen::Index i = 0; i < count; ++i) {
      const std::size_t row = static_cast<std::size_t>(i);
      const double weight = anchors.mixture.row(anchor)[positions[row]];
      const double rest = convex ? 1 - weight : 1;
      constexpr double kAlone = 1e-6;  // such an anchor is this row: without it nothing is left
      truth[i] = anchors.targets.row(positions[row])[anchor];
      if (rest < kAlone) counts[i] = 0;
      found[i] = rest < kAlone ? 0 : (rr.row(row)[anchor] - weight * lengths[i]) / rest;
    }
    const std::optional<double> r2 = r2_of(truth, found, counts);
    fit.r2[anchor] = static_cast<float>(r2.value_or(0));
    fit.mean_r2 += r2.value_or(0);
    if (r2) ++varying;
  }
  if (varying > 0) fit.mean_r2 /= static_cast<double>(varying);
  return fit;
}

}  // namespace

void judge_sources(Learned& learned, const Recipe& made, const FitInput& input,
                   std::span<const Statistics> statistics) {
  LearnedAnchors& anchors = learned.anchors;
  const std::vector<Matrix64>& supports = input.support.rows;
  const std::vector<std::size_t> positions = checked_positions(anchors.support_ids.size());
  std::vector<Matrix64> picked;
  std::vector<CheckedRows> checked;
  for (std::size_t i = 0; i < supports.size(); ++i) {
    const RowPool pool = input.spaces.empty() ? pool_of(supports[i]) : pool_of(input.spaces[i], input.file_rows);
    picked.push_back(pick_rows(supports[i].view(), positions));
    checked.push_back(checked_rows(statistics[i].space(), pool, anchors.support_ids, positions));
  }
  Sources sources = look_up_sources(picked);
  if (!anchors.has_targets() && !sources.sketches.empty()) anchors.sketch = joint_sketch(sources.sketches);
  const std::vector<std::optional<RowCheck>> checks = judge_rows(sources, picked, checked);
  const bool robust = std::ranges::any_of(learned.spaces, [](const Attachment& one) { return !!one.wrong_pairs; });
  FileRows ids;
  for (const std::size_t position : positions) ids.push_back(anchors.support_ids[position]);
  for_each_space(supports.size(), [&](std::size_t i) {
    Attachment& space = learned.spaces[i];
    space.row_check = checks[i];
    if (i > 0 && !robust) {
      space.wrong_pairs = look_for_wrong_pairs(statistics[i - 1].space(), picked[i - 1].view(), picked[i].view(), ids);
    }
    auto* mixed = std::get_if<ByMixture>(&space.by);
    if (mixed == nullptr || !anchors.has_targets()) return;
    mixed->fit = mixture_fit(anchors, is_convex(made.method), *space.map, supports[i], statistics[i]);
  });
}

void judge_attached(Attachment& attached, const Bundle& bundle, const LearnedAnchors& anchors, const Matrix64& support,
                    const Statistics& statistics, const RowPool& pool) {
  if (auto* mixed = std::get_if<ByMixture>(&attached.by); mixed != nullptr && anchors.has_targets()) {
    mixed->fit = mixture_fit(anchors, is_convex(bundle.made().method), *attached.map, support, statistics);
  }
  const std::vector<std::size_t> positions = checked_positions(anchors.support_ids.size());
  const std::vector<Sketch> others{known_rows(anchors, positions)};
  if (positions.size() < RowCheck::kLeastRows || others.front().rows() == 0) return;
  attached.row_check = examine(look_up(sketch_rows(pick_rows(support.view(), positions).view()), others),
                               checked_rows(attached.space(), pool, anchors.support_ids, positions), others);
  attached.row_check->same_as = find_same_map(bundle, *attached.map);
  if (attached.wrong_pairs || !anchors.has_targets()) return;
  FileRows ids;
  for (const std::size_t position : positions) ids.push_back(anchors.support_ids[position]);
  const Matrix64 targets = matrix_of<double>(as_eigen(pick_rows(anchors.targets.view(), positions).view()));
  attached.wrong_pairs = look_for_wrong_pairs("", pick_rows(support.view(), positions).view(), targets.view(), ids);
}

std::vector<std::optional<RowCheck>> check_rows(std::span<const Space> spaces) {
  const Work work;
  require_parallel(spaces);
  FileRows ids;
  for (const std::size_t position : checked_positions(spaces.front().rows())) {
    ids.push_back(spaces.front().file_row(position));
  }
  std::vector<Matrix64> picked;
  std::vector<CheckedRows> checked;
  for (const Space& space : spaces) {
    picked.push_back(space.gather(ids));
    checked.push_back({space.name(), pool_of(space, ids), ids, {}});
  }
  Sources sources = look_up_sources(picked);
  return judge_rows(sources, picked, checked);
}

}  // namespace kedge
