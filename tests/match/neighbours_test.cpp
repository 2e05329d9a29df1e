// SPDX-License-Identifier: Apache-2.0
#include "match/neighbours.h"

#include "base/random.h"
#include "base/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace kedge {
namespace {

Matrix random_units(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  Random random(seed);
  Matrix matrix(rows, cols);
  for (float& cell : matrix.cells()) cell = static_cast<float>(random.normal());
  return unit_rows(matrix.view());
}

double dot(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// The mean of the largest products of `row` with others.
double radius(std::span<const float> row, const Matrix& others) {
  std::vector<double> products;
  for (std::size_t i = 0; i < others.rows(); ++i) products.push_back(dot(row, others.row(i)));
  std::ranges::sort(products, std::greater{});
  const std::size_t count = csls_neighbours(others.rows());
  return std::accumulate(products.begin(), products.begin() + static_cast<std::ptrdiff_t>(count), 0.0) /
         static_cast<double>(count);
}

std::vector<double> radii_of(const Matrix& rows, const Matrix& others) {
  std::vector<double> radii;
  for (std::size_t r = 0; r < rows.rows(); ++r) radii.push_back(radius(rows.row(r), others));
  return radii;
}

std::vector<double> scores_of(std::span<const float> row, const Matrix& others, std::span<const double> radii) {
  std::vector<double> scores;
  for (std::size_t i = 0; i < others.rows(); ++i) scores.push_back(dot(row, others.row(i)) - radii[i] / 2);
  return scores;
}

TEST(TopValues, FindsTheLargestInShortAndLongRows) {
  Random random(1);
  TopValues top;
  for (const std::size_t size : {5U, 300U, 1024U, 4001U}) {
    std::vector<float> row(size);
    for (float& value : row) value = static_cast<float>(random.below(size));  // with ties
    for (const std::size_t count : {std::size_t{1}, std::size_t{3}, std::min<std::size_t>(50, size)}) {
      if (count > size) continue;
      std::vector<std::size_t> order(size);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
      order.resize(count);
      std::ranges::sort(order);
      const auto found = top.find(row, count);
      std::vector<std::size_t> sorted(found.begin(), found.end());
      std::ranges::sort(sorted);
      EXPECT_EQ(sorted, order) << size << " " << count;
    }
  }
}

TEST(Neighbours, AreThoseOfAPlainLoop) {
  const Matrix first = random_units(70, 6, 1), second = random_units(150, 6, 2);
  std::vector<float> room;
  const Neighbours found = find_neighbours(first.view(), second.view(), 4, room);
  const auto check = [](const Matrix& rows, const Matrix& others, std::span<const std::size_t> neighbours) {
    const std::vector<double> radii = radii_of(others, rows);
    for (std::size_t r = 0; r < rows.rows(); ++r) {
      std::vector<double> scores = scores_of(rows.row(r), others, radii), found_scores;
      for (const std::size_t place : neighbours.subspan(r * 4, 4)) found_scores.push_back(scores[place]);
      std::ranges::sort(scores, std::greater{});
      std::ranges::sort(found_scores, std::greater{});
      for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(found_scores[i], scores[i], 1e-5);
    }
  };
  check(first, second, found.of_first);
  check(second, first, found.of_second);
}

TEST(Neighbours, OfAllRowsAreThoseOfAPlainLoopInAnyNumberOfBlocks) {
  const Matrix first = random_units(150, 5, 3), second = random_units(2100, 5, 4);
  const NearestOfAll found =
      find_nearest(blocks_of(first.view()), blocks_of(second.view()), first.view(), second.view());
  const auto check = [](const Matrix& rows, const Matrix& others, std::span<const Nearest> nearest) {
    const std::vector<double> radii = radii_of(others, rows);
    for (std::size_t r = 0; r < rows.rows(); ++r) {
      std::vector<double> scores = scores_of(rows.row(r), others, radii);
      EXPECT_NEAR(scores[nearest[r].place], nearest[r].score, 1e-5);
      std::ranges::nth_element(scores, scores.begin() + 1, std::greater{});
      EXPECT_NEAR(nearest[r].score, scores[0], 1e-5);
      EXPECT_NEAR(nearest[r].next, scores[1], 1e-5);
    }
  };
  check(first, second, found.of_first);
  check(second, first, found.of_second);
}

}  // namespace
}  // namespace kedge
