// SPDX-License-Identifier: Apache-2.0
#include <kedge/match.h>

#include "base/eigen.h"
#include "base/parallel.h"
#include "base/rows.h"
#include "base/wording.h"
#include "compute/products.h"
#include "compute/threads.h"
#include "match/pairs.h"
#include "match/refine.h"

#include <kedge/draw.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace kedge {
namespace {

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

void require_spaces(const Space& first, const Space& second, const MatchOptions& options) {
  const bool same_file = !first.source().file().empty() && first.source().file() == second.source().file();
  if (first.name() == second.name()) refuse("both spaces are called '{}'; give each a name of its own", first.name());
  if (same_file && first.range().begin == second.range().begin && first.range().end == second.range().end) {
    refuse("'{}' and '{}' are the same rows of {}; give the rows of another encoder", first.name(), second.name(),
           first.source().label());
  }
  if (options.runs == 0) refuse("{} must be 1 or more", option_words("runs"));
  for (const Space* space : {&first, &second}) {
    const bool judged = options.pairs.size() >= 2 * MatchOptions::kDecidingPairs;
    if (space->rows() >= (judged ? MatchOptions::kLeastJudgedRows : MatchOptions::kLeastRows)) continue;
    refuse("space '{}' has {} rows, too few to tell a match from chance; {} are needed, or {} with {} known pairs",
           space->name(), space->rows(), MatchOptions::kLeastRows, MatchOptions::kLeastJudgedRows,
           MatchOptions::kDecidingPairs);
  }
}

Pairs require_pairs(const Space& first, const Space& second, const std::vector<std::int64_t>& numbers) {
  if (numbers.size() % 2 != 0) refuse("each pair must hold 2 row numbers, but {} were given in all", numbers.size());
  Pairs pairs;
  std::map<std::int64_t, std::size_t> seen[2];
  for (std::size_t pair = 0; pair < numbers.size() / 2; ++pair) {
    for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
      const Space& space = side == 0 ? first : second;
      const std::int64_t row = numbers[2 * pair + side];
      if (row < 0 || static_cast<std::size_t>(row) >= space.source().rows()) {
        refuse("pair {} names row {} of space '{}', but {} has rows 0:{}; rows are counted from 0", pair, row,
               space.name(), space.source().label(), space.source().rows());
      }
      const auto [before, is_new] = seen[side].emplace(row, pair);
      if (is_new) continue;
      refuse("pairs {} and {} both name row {} of space '{}'; a row has one partner, so keep one of them",
             before->second, pair, row, space.name());
    }
    pairs.emplace_back(numbers[2 * pair], numbers[2 * pair + 1]);
  }
  return pairs;
}

/// Clouds of rows in a few dimensions look alike whatever they are of.
void require_directions(const Space& space, const PrincipalRows& rows) {
  const auto count = std::count_if(rows.variances.begin(), rows.variances.end(),
                                   [&](double variance) { return variance > 1e-3 * rows.variances.front(); });
  if (count >= kMatch.directions) return;
  refuse("space '{}' varies in {} directions, too few to tell a match from chance; {} are needed", space.name(), count,
         kMatch.directions);
}

KnownRows known_rows(const Space& first, const Space& second, const TwoSpaces& spaces, const Pairs& pairs) {
  if (pairs.empty()) return {};
  std::vector<std::int64_t> a, b;
  for (const auto& [one, other] : pairs) {
    a.push_back(one);
    b.push_back(other);
  }
  return {spaces.first.coordinates(first.gather(a)), spaces.second.coordinates(second.gather(b))};
}

/// How many rows of a side are nearer to a pair's row of the other side than its partner is, for each pair.
std::vector<std::size_t> ranks(const Matrix& queries, const Matrix& partners, const Matrix& rows) {
  const OneThread alone;
  const EigenRows<float> products = product(queries.view(), as_eigen(rows.view()).transpose());
  std::vector<std::size_t> found;
  for (std::size_t q = 0; q < queries.rows(); ++q) {
    const float own = as_eigen(queries.row(q)).dot(as_eigen(partners.row(q))) + 1e-6F;  // it may be among the rows
    found.push_back(static_cast<std::size_t>((products.row(static_cast<Eigen::Index>(q)).array() > own).count()));
  }
  return found;
}

/// Both ways: for each pair its rank among the drawn rows of the second space, then of the first.
std::vector<std::size_t> ranks_of(const KnownRows& pairs, const TwoSpaces& spaces, const Matrix64& map) {
  const Alignment aligned = align(map);
  const Matrix a = project(pairs.first.view(), aligned.first), b = project(pairs.second.view(), aligned.second);
  std::vector<std::size_t> found = ranks(a, b, project(spaces.second.rows.view(), aligned.second));
  const std::vector<std::size_t> back = ranks(b, a, project(spaces.first.rows.view(), aligned.first));
  found.insert(found.end(), back.begin(), back.end());
  return found;
}

void score(std::span<const std::size_t> ranks, double& found, double& mrr) {
  for (const std::size_t rank : ranks) {
    found += rank == 0 ? 1.0 / static_cast<double>(ranks.size()) : 0;
    mrr += 1.0 / static_cast<double>((rank + 1) * ranks.size());
  }
}

/// Pairs that come first from either side. Of few rows, one that does may do so by chance, and then from both.
std::size_t count_found(std::span<const std::size_t> ranks) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < ranks.size() / 2; ++i) found += ranks[i] == 0 || ranks[ranks.size() / 2 + i] == 0 ? 1 : 0;
  return found;
}

struct Run {
  Matrix64 map;
  double mutual = 0;
};

/// A map scaled so that maps of any origin can be added.
EigenRows<double> scaled(const Matrix64& map) {
  return as_eigen(map.view()) / std::max(as_eigen(map.view()).norm(), 1e-300);
}

class Matcher {
 public:
  Matcher(const Space& first, const Space& second, const MatchOptions& options, const Progress& progress)
      : first_(first), second_(second), options_(options), progress_(progress) {
    const auto read = [&](const Space& space, std::int64_t side) {
      return read_principal_rows(space, kMatch.rows, kMatch.rank, draw_key(side, options.seed), progress);
    };
    spaces_.first = read(first, 0);
    spaces_.second = read(second, 1);
    require_directions(first, spaces_.first);
    require_directions(second, spaces_.second);
  }

  Match match(const Pairs& pairs) {
    if (pairs.empty()) {
      match_alone();
    } else if (pairs.size() < MatchOptions::kDecidingPairs) {
      match_with_few(known_rows(first_, second_, spaces_, pairs));
    } else {
      match_with(pairs);
    }
    finish(pairs);
    return std::move(result_);
  }

 private:
  Tell teller(std::string step) const {
    if (!progress_) return {};
    return [this, step = std::move(step)](std::size_t done, std::size_t total) { progress_({step, done, total, ""}); };
  }

  std::uint64_t seed(std::int64_t what) const { return draw_key(what + 2, options_.seed); }

  Matrix64 first_map(const KnownRows& known, std::int64_t run) const {
    return match_centres(spaces_, known, seed(4 * run), teller(fmt::format("run {}: centres", run + 1)));
  }

  /// Steps, and again steps while that makes more rows the nearest of their nearest.
  Run make_run(Matrix64 start, const KnownRows& known, std::int64_t run) {
    Refiner refiner(spaces_, known, seed(4 * run + 1));
    const auto refine = [&](Matrix64 from, std::size_t round) {
      Run refined{refiner.refine(std::move(from), round == 0 ? kMatch.soft_steps : kMatch.soft_again,
                                 teller(fmt::format("run {}: steps, round {}", run + 1, round + 1))),
                  0};
      refined.mutual = mutual_share(spaces_, refined.map);
      return refined;
    };
    Run best = refine(std::move(start), 0);
    for (std::size_t round = 1; round < kMatch.rounds && best.mutual < kMatch.plateau; ++round) {
      Run next = refine(best.map, round);
      const bool grows = next.mutual > best.mutual + kMatch.growth;
      if (next.mutual > best.mutual) best = std::move(next);
      if (!grows) break;
    }
    ++result_.runs;
    return best;
  }

  void choose(const Run& one, const Run& other) {
    const bool swapped = other.mutual > one.mutual;
    best_ = swapped ? other : one;
    other_ = swapped ? one : other;
    result_.mutual = best_.mutual;
  }

  /// Two independent runs that agree are both right.
  void match_alone() {
    std::vector<Run> runs;
    for (std::size_t run = 0; run < options_.runs && result_.agreement < kMatch.agree; ++run) {
      const auto number = static_cast<std::int64_t>(run);
      runs.push_back(make_run(first_map({}, number), {}, number));
      if (run == 0) choose(runs[0], runs[0]);
      for (std::size_t before = 0; before < run; ++before) {
        const double agreed = agreement(spaces_, runs[before].map, runs[run].map, seed(4 * number + 2));
        if (agreed <= result_.agreement) continue;
        result_.agreement = agreed;
        choose(runs[before], runs[run]);
      }
    }
    if (result_.agreement >= kMatch.agree) result_.verdict = MatchVerdict::matched;
  }

  /// One run from the pairs alone, and one from the pairs and the centres: either may be the better one. A first run
  /// that is `enough` if it reaches the plateau saves the second.
  void run_both(const KnownRows& known, bool enough) {
    const Matrix64 pairs = mean_product(known.first, known.second);
    const Run alone = make_run(pairs, known, 0);
    if (enough && alone.mutual >= kMatch.plateau) return choose(alone, alone);
    const Matrix64 centres = first_map(known, 1);
    const Run together = make_run(matrix_of<double>(scaled(pairs) + scaled(centres)), known, 1);
    result_.agreement = agreement(spaces_, alone.map, together.map, seed(2));
    choose(alone, together);
  }

  /// Both runs share the pairs, so that they may agree and be wrong; but then few rows are mutual neighbours, unless
  /// one side is so much smaller that each of its rows has a near one by chance.
  void match_with_few(const KnownRows& known) {
    run_both(known, false);
    const auto [fewer, more] = std::minmax(first_.rows(), second_.rows());
    const bool evident = best_.mutual >= kMatch.mutual && more <= kMatch.uneven * fewer;
    if (result_.agreement >= kMatch.agree && evident) result_.verdict = MatchVerdict::matched;
  }

  /// Pairs that took no part decide.
  void match_with(const Pairs& pairs) {
    const std::vector<std::size_t> order = Random(seed(3)).sample(pairs.size(), pairs.size());
    const std::size_t kept = std::max<std::size_t>(
        3, static_cast<std::size_t>(std::round(kMatch.kept_back * static_cast<double>(pairs.size()))));
    Pairs used, held;
    for (std::size_t i = 0; i < order.size(); ++i) (i < kept ? held : used).push_back(pairs[order[i]]);
    const KnownRows known = known_rows(first_, second_, spaces_, used);
    const KnownRows judges = known_rows(first_, second_, spaces_, held);
    run_both(known, true);
    KeptBack scores{kept};
    score(ranks_of(judges, spaces_, mean_product(known.first, known.second)), scores.found_before, scores.mrr_before);
    const std::vector<std::size_t> after = ranks_of(judges, spaces_, best_.map);
    score(after, scores.found_after, scores.mrr_after);
    result_.kept_back = scores;
    const double slack = 0.5 / static_cast<double>(kept);  // one row that is found or not decides nothing
    if (scores.mrr_after < scores.mrr_before - slack) {
      result_.verdict = MatchVerdict::made_worse;
    } else if (scores.mrr_after >= kMatch.found && count_found(after) >= 2) {
      result_.verdict = MatchVerdict::matched;
      use_all(known_rows(first_, second_, spaces_, pairs));
    }
  }

  void use_all(const KnownRows& known) {
    Refiner refiner(spaces_, known, seed(4));
    const std::size_t soft_steps = best_.mutual < kMatch.plateau ? kMatch.soft_again : 0;
    Matrix64 map = refiner.refine(best_.map, soft_steps, teller("steps with all pairs"));
    if (result_.runs == 1) result_.agreement = agreement(spaces_, best_.map, map, seed(2));
    other_.map = std::exchange(best_.map, std::move(map));
  }

  void finish(const Pairs& pairs) {
    if (result_.verdict == MatchVerdict::made_worse) {
      const KnownRows all = known_rows(first_, second_, spaces_, pairs);
      best_.map = mean_product(all.first, all.second);
    }
    set_rotation();
    if (options_.disjoint && result_.verdict == MatchVerdict::matched) result_.verdict = MatchVerdict::disjoint;
    const bool matched = result_.verdict == MatchVerdict::matched;
    if (matched || (options_.force && !options_.disjoint)) {
      find_pairs(first_, second_, spaces_, {best_.map, other_.map}, seed(5), result_, teller("comparing all rows"));
    }
    if (matched && result_.mutual < kMatch.mutual) {
      result_.verdict = MatchVerdict::disjoint;
      if (!options_.force) result_.pairs.clear(), result_.chances.clear();
    }
    if (result_.verdict == MatchVerdict::made_worse && !options_.force) {
      for (const auto& [one, other] : pairs) result_.pairs.insert(result_.pairs.end(), {one, other});
      result_.chances.assign(pairs.size(), 1.0F);
    }
    warn_of_pairs(pairs);
  }

  /// Pairs that the result contradicts may be slips of whoever made them.
  void warn_of_pairs(const Pairs& pairs) {
    if (pairs.empty() || !is_success(result_.verdict)) return;
    const std::vector<std::size_t> found = ranks_of(known_rows(first_, second_, spaces_, pairs), spaces_, other_.map);
    std::vector<std::size_t> far;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const bool near = found[i] < 10 + spaces_.second.rows.rows() / 50 ||
                        found[pairs.size() + i] < 10 + spaces_.first.rows.rows() / 50;
      if (!near) far.push_back(i);
    }
    if (far.empty()) return;
    const auto& [one, other] = pairs[far.front()];
    result_.warnings.push_back(
        fmt::format("{} of {} known pairs are far from each other among the rows matched, first row {} of '{}' and row "
                    "{} of '{}'; are they right?",
                    far.size(), pairs.size(), one, first_.name(), other, second_.name()));
  }

  void set_rotation() {
    const Alignment aligned = align(best_.map);
    const OneThread alone;
    const EigenRows<float> from = product(aligned.first.view(), spaces_.first.basis.view());
    const EigenRows<float> to = product(aligned.second.view(), spaces_.second.basis.view());
    const auto scale = static_cast<float>(std::sqrt(spaces_.second.spread / spaces_.first.spread));
    result_.rotation.weight = matrix_of<float>(product(to.transpose(), from) * scale);
    result_.rotation.first_mean.assign(spaces_.first.mean.begin(), spaces_.first.mean.end());
    result_.rotation.second_mean.assign(spaces_.second.mean.begin(), spaces_.second.mean.end());
  }

  const Space &first_, &second_;
  const MatchOptions& options_;
  const Progress& progress_;
  TwoSpaces spaces_;
  Run best_, other_;
  Match result_;
};

}  // namespace

Match match(const Space& first, const Space& second, const MatchOptions& options, const Progress& progress) {
  const Work work;
  require_spaces(first, second, options);
  const Pairs pairs = require_pairs(first, second, options.pairs);
  return Matcher(first, second, options, progress).match(pairs);
}

}  // namespace kedge
