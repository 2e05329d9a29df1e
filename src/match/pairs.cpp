// SPDX-License-Identifier: Apache-2.0
#include "match/pairs.h"

#include "base/eigen.h"
#include "base/rows.h"
#include "compute/products.h"

#include <algorithm>
#include <numeric>

namespace kedge {
namespace {

struct Found {
  std::size_t first = 0, second = 0;
  float margin = 0;
};

std::vector<Found> mutual_pairs(const NearestOfAll& nearest) {
  std::vector<Found> found;
  for (std::size_t r = 0; r < nearest.of_first.size(); ++r) {
    const Nearest& there = nearest.of_first[r];
    const Nearest& back = nearest.of_second[there.place];
    if (back.place == r) found.push_back({r, there.place, std::min(there.margin(), back.margin())});
  }
  std::ranges::stable_sort(found, std::greater{}, &Found::margin);
  return found;
}

/// Which of some pairs the other map makes too.
Chances judge_pairs(const Space& first, const Space& second, const TwoSpaces& principal, const Matrix64& other,
                    std::span<const Found> pairs, std::uint64_t seed) {
  constexpr std::size_t kTrials = 2000;
  std::vector<std::size_t> tried = Random(seed).sample(pairs.size(), std::min(kTrials, pairs.size()));
  std::vector<std::int64_t> rows;
  for (const std::size_t pair : tried) rows.push_back(first.file_row(pairs[pair].first));
  const Alignment aligned = align(other);
  const Matrix queries = project(principal.first.coordinates(first.gather(rows)).view(), aligned.first);
  const NearestOfAll nearest =
      find_nearest(blocks_of(queries.view()), aligned_rows(second, principal.second, aligned.second),
                   project(principal.first.rows.view(), aligned.first).view(),
                   project(principal.second.rows.view(), aligned.second).view());
  std::vector<Chances::Trial> trials;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    const Found& pair = pairs[tried[i]];
    trials.push_back({pair.margin, nearest.of_first[i].place == pair.second});
  }
  return Chances(std::move(trials));
}

}  // namespace

RowBlocks aligned_rows(const Space& space, const PrincipalRows& principal, const Matrix& directions) {
  auto weight = std::make_shared<EigenRows<float>>(product(directions.view(), principal.basis.view()));
  auto bias = std::make_shared<Eigen::RowVectorXf>(
      -product(Eigen::RowVectorXf(as_eigen(std::span(principal.mean)).cast<float>()), weight->transpose()));
  return {space.rows(), directions.rows(), [space, weight, bias](std::size_t first, MatrixView<float> out) {
            Matrix read(out.rows, space.dim());
            space.read(first, read.view());
            set_product(out, std::as_const(read).view(), weight->transpose());
            as_eigen(out).rowwise() += *bias;
            normalize_rows(out);
          }};
}

void find_pairs(const Space& first, const Space& second, const TwoSpaces& principal, const TwoMaps& maps,
                std::uint64_t seed, Match& match, const Tell& tell) {
  const Alignment aligned = align(maps.map);
  const NearestOfAll nearest = find_nearest(aligned_rows(first, principal.first, aligned.first),
                                            aligned_rows(second, principal.second, aligned.second),
                                            project(principal.first.rows.view(), aligned.first).view(),
                                            project(principal.second.rows.view(), aligned.second).view(), tell);
  const std::vector<Found> found = mutual_pairs(nearest);
  match.mutual = static_cast<double>(found.size()) / static_cast<double>(std::min(first.rows(), second.rows()));
  const Chances chances = judge_pairs(first, second, principal, maps.other, found, seed);
  for (const Found& pair : found) {
    match.pairs.insert(match.pairs.end(), {first.file_row(pair.first), second.file_row(pair.second)});
    match.chances.push_back(chances.of(pair.margin));
  }
}

Chances::Chances(std::vector<Trial> trials) {
  struct Group {
    float margin = 0;
    double confirmed = 0, trials = 0;
    // Between none and all, so that few trials make nothing certain.
    [[nodiscard]] double chance() const { return (confirmed + 0.5) / (trials + 1); }
  };
  std::ranges::sort(trials, {}, [](const Trial& trial) { return std::pair(trial.margin, !trial.confirmed); });
  std::vector<Group> groups;
  for (const Trial& trial : trials) {
    groups.push_back({trial.margin, trial.confirmed ? 1.0 : 0.0, 1});
    while (groups.size() > 1 && groups[groups.size() - 2].chance() >= groups.back().chance()) {
      const Group last = groups.back();
      groups.pop_back();
      groups.back().confirmed += last.confirmed;
      groups.back().trials += last.trials;
    }
  }
  for (const Group& group : groups) {
    margins_.push_back(group.margin);
    chances_.push_back(static_cast<float>(group.chance()));
  }
}

float Chances::of(float margin) const {
  const auto after = std::ranges::upper_bound(margins_, margin) - margins_.begin();
  return chances_.empty() ? 0 : chances_[static_cast<std::size_t>(std::max<std::ptrdiff_t>(after, 1)) - 1];
}

}  // namespace kedge
