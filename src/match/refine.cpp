// SPDX-License-Identifier: Apache-2.0
#include "match/refine.h"

#include "base/parallel.h"
#include "base/rows.h"
#include "compute/lapack.h"
#include "compute/products.h"
#include "match/assign.h"
#include "match/centres.h"

#include <kedge/draw.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

namespace kedge {
namespace {

/// Inner products of centred rows.
Matrix64 gram_of(const Matrix& rows) {
  EigenRows<double> centred = as_eigen(rows.view()).cast<double>();
  centred.rowwise() -= centred.colwise().mean().eval();
  return matrix_of<double>(product(centred, centred.transpose()));
}

/// Which centres each row is near to, as shares.
EigenRows<double> shares_of(const Matrix& rows, const Matrix& centres) {
  constexpr double kSharpness = 20;
  EigenRows<double> shares =
      product(as_eigen(rows.view()), as_eigen(centres.view()).transpose()).cast<double>() * kSharpness;
  for (Eigen::Index r = 0; r < shares.rows(); ++r) {
    shares.row(r) = (shares.row(r).array() - shares.row(r).maxCoeff()).exp();
    shares.row(r) /= shares.row(r).sum();
  }
  return shares;
}

/// What known pairs say about which centre belongs to which, as heavy as what the Gram matrices say.
Matrix64 centres_by_pairs(const KnownRows& known, const Matrix& first, const Matrix& second, double weight) {
  if (known.empty()) return {};
  const EigenRows<double> a = shares_of(known.first, first), b = shares_of(known.second, second);
  Matrix64 linear = matrix_of<double>(product(a.transpose(), b));
  auto cells = as_eigen(linear.view());
  cells *= weight / std::max(cells.norm(), 1e-300);
  return linear;
}

/// The mean of each row's neighbours.
Matrix mean_neighbours(std::span<const std::size_t> neighbours, std::size_t count, const Matrix& rows) {
  Matrix means(neighbours.size() / count, rows.cols());
  parallel_blocks(means.rows(), 64, threads(), [&] {
    return [&](std::size_t first, std::size_t size) {
      for (std::size_t r = first; r < first + size; ++r) {
        auto mean = as_eigen(means.row(r));
        for (const std::size_t place : neighbours.subspan(r * count, count)) mean += as_eigen(rows.row(place));
        mean /= static_cast<float>(count);
      }
    };
  });
  return means;
}

}  // namespace

Matrix draw_rows(const Matrix& rows, std::size_t most, Random& random) {
  const auto share = static_cast<std::size_t>(kMatch.draw * static_cast<double>(rows.rows()));
  return pick_rows(rows.view(), random.sample(rows.rows(), std::min(most, std::max<std::size_t>(share, 1))));
}

Matrix64 mean_product(const Matrix& first, const Matrix& second) {
  const Matrix sum = cross_product(first.view(), second.view());
  return matrix_of<double>(as_eigen(sum.view()).cast<double>() / static_cast<double>(first.rows()));
}

Alignment align(const Matrix64& between, double alpha) {
  constexpr double kLeast = 1e-5;  // few pairs say nothing about most directions
  const OneThread alone;
  const SingularTriples triples = svd(between);
  std::size_t kept = 0;
  while (kept < triples.values.size() && triples.values[kept] > kLeast * triples.values[0]) ++kept;
  Alignment found{Matrix(kept, between.rows()), Matrix(kept, between.cols())};
  for (std::size_t i = 0; i < kept; ++i) {
    const double weight = std::pow(triples.values[i] / triples.values[0], alpha / 2);
    as_eigen(found.first.row(i)) = (as_eigen(triples.left.row(i)) * weight).cast<float>();
    as_eigen(found.second.row(i)) = (as_eigen(triples.right.row(i)) * weight).cast<float>();
  }
  return found;
}

Matrix64 match_centres(const TwoSpaces& spaces, const KnownRows& known, std::uint64_t seed, const Tell& tell) {
  const Matrix first = spaces.first.half_whitened(spaces.first.rows);
  const Matrix second = spaces.second.half_whitened(spaces.second.rows);
  const KnownRows pairs{known.empty() ? Matrix() : spaces.first.half_whitened(known.first),
                        known.empty() ? Matrix() : spaces.second.half_whitened(known.second)};
  const std::size_t centres = std::clamp<std::size_t>(std::min(first.rows(), second.rows()) / 10, 2, kMatch.centres);
  std::vector<EigenRows<double>> maps(kMatch.restarts);
  std::mutex lock;
  std::size_t done = 0;
  parallel_blocks(kMatch.restarts, 1, threads(), [&] {
    return [&](std::size_t restart, std::size_t) {
      Random random(draw_key(static_cast<std::int64_t>(restart), seed));
      const Matrix a = find_centres(draw_rows(first, kMatch.centre_rows, random).view(), centres, random);
      const Matrix b = find_centres(draw_rows(second, kMatch.centre_rows, random).view(), centres, random);
      const Matrix64 a_gram = gram_of(a), b_gram = gram_of(b);
      const double weight = as_eigen(a_gram.view()).norm() * as_eigen(b_gram.view()).norm();
      const Matrix64 linear = centres_by_pairs(pairs, a, b, weight / static_cast<double>(centres));
      const Matrix matched = pick_rows(b.view(), assign(a_gram, b_gram, linear, kMatch.starts, random));
      maps[restart] = product(as_eigen(a.view()).transpose(), matched.view()).cast<double>();
      const std::scoped_lock held(lock);
      if (tell) tell(++done, kMatch.restarts);
    };
  });
  for (std::size_t i = 1; i < maps.size(); ++i) maps[0] += maps[i];
  return matrix_of<double>(maps[0] / static_cast<double>(maps.size() * centres));
}

Matrix64 Refiner::step(const Matrix64& between, double progress, bool soft) {
  const std::size_t most = soft ? kMatch.step_rows : 2 * kMatch.step_rows;
  const Matrix first = draw_rows(spaces_.first.rows, most, random_);
  const Matrix second = draw_rows(spaces_.second.rows, most, random_);
  const Alignment aligned = align(between, soft ? kMatch.alpha * (1 - progress) : 0);
  // The mean of most rows of a small side would say nothing.
  const double most_neighbours =
      std::clamp(static_cast<double>(std::min(first.rows(), second.rows())) / 7, 1.0, kMatch.most_neighbours);
  const double neighbours = soft ? std::round(std::pow(most_neighbours, 1 - progress)) : 1;
  const Neighbours found =
      find_neighbours(project(first.view(), aligned.first).view(), project(second.view(), aligned.second).view(),
                      static_cast<std::size_t>(neighbours), room_);
  if (soft) {
    const Matrix64 there = mean_product(first, mean_neighbours(found.of_first, found.count, second));
    const Matrix64 back = mean_product(mean_neighbours(found.of_second, found.count, first), second);
    return matrix_of<double>(0.5 * (as_eigen(there.view()) + as_eigen(back.view())));
  }
  std::vector<std::size_t> here, there;
  for (std::size_t r = 0; r < first.rows(); ++r) {
    if (found.of_second[found.of_first[r]] != r) continue;
    here.push_back(r);
    there.push_back(found.of_first[r]);
  }
  if (here.empty()) return between;
  return mean_product(pick_rows(first.view(), here), pick_rows(second.view(), there));
}

Matrix64 Refiner::refine(Matrix64 between, std::size_t soft_steps, const Tell& tell) {
  const std::size_t steps = soft_steps + kMatch.hard_steps;
  for (std::size_t i = 0; i < steps; ++i) {
    const bool soft = i < soft_steps;
    between = step(between, soft ? static_cast<double>(i) / static_cast<double>(soft_steps - 1) : 1, soft);
    if (!known_.empty()) {
      const Matrix64 pairs = mean_product(known_.first, known_.second);
      as_eigen(between.view()) += (soft ? kMatch.soft_pairs : kMatch.hard_pairs) * as_eigen(pairs.view());
    }
    if (tell) tell(i + 1, steps);
  }
  return between;
}

std::size_t count_mutual(const NearestOfAll& nearest) {
  std::size_t count = 0;
  for (std::size_t r = 0; r < nearest.of_first.size(); ++r) {
    count += static_cast<std::size_t>(nearest.of_second[nearest.of_first[r].place].place == r);
  }
  return count;
}

double mutual_share(const TwoSpaces& spaces, const Matrix64& between) {
  const Alignment aligned = align(between);
  const Matrix first = project(spaces.first.rows.view(), aligned.first);
  const Matrix second = project(spaces.second.rows.view(), aligned.second);
  const NearestOfAll nearest =
      find_nearest(blocks_of(first.view()), blocks_of(second.view()), first.view(), second.view());
  return static_cast<double>(count_mutual(nearest)) / static_cast<double>(std::min(first.rows(), second.rows()));
}

double agreement(const TwoSpaces& spaces, const Matrix64& one, const Matrix64& other, std::uint64_t seed) {
  constexpr std::size_t kRows = 2000, kAmong = 4000;
  Random random(seed);
  const Matrix first = draw_rows(spaces.first.rows, kRows, random);
  const Matrix second = draw_rows(spaces.second.rows, kAmong, random);
  std::vector<float> room;
  const auto neighbours = [&](const Matrix64& between) {
    const Alignment aligned = align(between);
    return find_neighbours(project(first.view(), aligned.first).view(), project(second.view(), aligned.second).view(),
                           1, room)
        .of_first;
  };
  const auto a = neighbours(one), b = neighbours(other);
  const std::size_t same = std::transform_reduce(a.begin(), a.end(), b.begin(), std::size_t{0}, std::plus{},
                                                 [](std::size_t x, std::size_t y) { return std::size_t{x == y}; });
  return static_cast<double>(same) / static_cast<double>(a.size());
}

}  // namespace kedge
