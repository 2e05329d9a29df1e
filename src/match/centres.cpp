// SPDX-License-Identifier: Apache-2.0
#include "match/centres.h"

#include "base/eigen.h"
#include "compute/products.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace kedge {
namespace {

constexpr std::size_t kCandidates = 4;
constexpr std::size_t kMostPasses = 25;
constexpr double kFewMoved = 5e-4;  // of the rows: then the centres are good enough

/// A row, as likely as `weights` say.
std::size_t draw_by_weight(std::span<const double> sums, Random& random) {
  const double at = random.uniform() * sums.back();
  const auto found = std::ranges::lower_bound(sums, at);
  return std::min<std::size_t>(static_cast<std::size_t>(found - sums.begin()), sums.size() - 1);
}

Matrix seed_centres(MatrixView<const float> rows, std::span<const float> squares, std::size_t count, Random& random) {
  Matrix centres(count, rows.cols), candidates(kCandidates, rows.cols), products(rows.rows, kCandidates);
  std::ranges::copy(rows.row(random.below(rows.rows)), centres.row(0).begin());
  std::vector<float> nearest(rows.rows, std::numeric_limits<float>::infinity());
  std::vector<float> best(rows.rows);
  const auto distances = [&](std::size_t candidate, float square) {
    std::vector<float> result(rows.rows);
    for (std::size_t r = 0; r < rows.rows; ++r) {
      const float squared = squares[r] - 2 * products.row(r)[candidate] + square;
      result[r] = std::min(nearest[r], std::max(squared, 0.0F));
    }
    return result;
  };
  const auto measure = [&] { set_product(products.view(), rows, as_eigen(candidates.view()).transpose()); };
  std::ranges::copy(centres.row(0), candidates.row(0).begin());
  measure();
  nearest = distances(0, as_eigen(candidates.row(0)).squaredNorm());
  std::vector<double> sums(rows.rows);
  for (std::size_t centre = 1; centre < count; ++centre) {
    double sum = 0;
    for (std::size_t r = 0; r < rows.rows; ++r) sums[r] = sum += nearest[r];
    for (std::size_t i = 0; i < kCandidates; ++i) {
      std::ranges::copy(rows.row(draw_by_weight(sums, random)), candidates.row(i).begin());
    }
    measure();
    double least = std::numeric_limits<double>::infinity();
    std::size_t chosen = 0;
    for (std::size_t i = 0; i < kCandidates; ++i) {
      std::vector<float> with = distances(i, as_eigen(candidates.row(i)).squaredNorm());
      const double total = as_eigen(std::span<const float>(with)).cast<double>().sum();
      if (total >= least) continue;
      least = total;
      chosen = i;
      best = std::move(with);
    }
    nearest = best;
    std::ranges::copy(candidates.row(chosen), centres.row(centre).begin());
  }
  return centres;
}

}  // namespace

Matrix find_centres(MatrixView<const float> rows, std::size_t count, Random& random) {
  std::vector<float> squares(rows.rows);
  for (std::size_t r = 0; r < rows.rows; ++r) squares[r] = as_eigen(rows.row(r)).squaredNorm();
  Matrix centres = seed_centres(rows, squares, count, random);
  Matrix products(rows.rows, count);
  std::vector<Eigen::Index> labels(rows.rows, -1);
  for (std::size_t pass = 0; pass < kMostPasses; ++pass) {
    set_product(products.view(), rows, as_eigen(centres.view()).transpose());
    const Eigen::RowVectorXf halves = as_eigen(centres.view()).rowwise().squaredNorm().transpose() / 2;
    std::size_t moved = 0;
    Matrix sums(count, rows.cols);
    std::vector<std::size_t> counts(count);
    for (std::size_t r = 0; r < rows.rows; ++r) {
      Eigen::Index label = 0;
      (as_eigen(products.row(r)) - halves).maxCoeff(&label);
      moved += static_cast<std::size_t>(std::exchange(labels[r], label) != label);
      as_eigen(sums.row(static_cast<std::size_t>(label))) += as_eigen(rows.row(r));
      ++counts[static_cast<std::size_t>(label)];
    }
    if (static_cast<double>(moved) < kFewMoved * static_cast<double>(rows.rows)) break;
    for (std::size_t c = 0; c < count; ++c) {
      if (counts[c] != 0) as_eigen(centres.row(c)) = as_eigen(sums.row(c)) / static_cast<float>(counts[c]);
    }
  }
  return centres;
}

}  // namespace kedge
