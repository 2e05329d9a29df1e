// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"
#include "base/wording.h"
#include "compute/neighbors.h"
#include "compute/products.h"
#include "compute/threads.h"

#include <kedge/support.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kedge {
namespace {

constexpr Names<SupportSelect, 4> kSupportSelectNames{"way to select the support",
                                                      {"random", "fps", "kmeans", "leverage"}};

/// Adds rows drawn at random until there are `count`.
void fill(std::vector<std::size_t>& chosen, std::size_t rows, std::size_t count, std::uint64_t seed) {
  std::vector<bool> used(rows);
  for (const std::size_t row : chosen) used[row] = true;
  for (const std::size_t row : Random(seed).sample(rows, rows)) {
    if (chosen.size() == count) return;
    if (!used[row]) chosen.push_back(row);
  }
}

std::vector<std::size_t> nearest_to_means(MatrixView<const float> rows, std::size_t count, std::uint64_t seed) {
  const std::vector<std::size_t> clusters = kmeans_clusters(rows, count, seed);
  Matrix64 means(count, rows.cols);
  std::vector<double> sizes(count);
  for (std::size_t i = 0; i < rows.rows; ++i) {
    as_eigen(means.row(clusters[i])) += as_eigen(rows.row(i)).cast<double>();
    ++sizes[clusters[i]];
  }
  for (std::size_t c = 0; c < count; ++c) as_eigen(means.row(c)) /= std::max(sizes[c], 1.0);

  std::vector<std::size_t> nearest(count);
  std::vector<double> distances(count, std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < rows.rows; ++i) {
    const std::size_t cluster = clusters[i];
    const double distance = (as_eigen(rows.row(i)).cast<double>() - as_eigen(means.row(cluster))).squaredNorm();
    if (distance >= distances[cluster]) continue;
    distances[cluster] = distance;
    nearest[cluster] = i;
  }
  std::vector<std::size_t> chosen;
  for (std::size_t c = 0; c < count; ++c) {
    if (sizes[c] > 0) chosen.push_back(nearest[c]);
  }
  fill(chosen, rows.rows, count, seed);  // duplicates leave clusters empty
  return chosen;
}

/// Efraimidis and Spirakis: the rows with the largest keys log(u) / weight are a draw without replacement.
std::vector<std::size_t> draw_by_length(MatrixView<const float> rows, std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> keys(rows.rows);
  for (std::size_t i = 0; i < rows.rows; ++i) {
    const double draw = std::log(random.uniform());
    const double weight = as_eigen(rows.row(i)).cast<double>().squaredNorm();
    keys[i] = weight > 0 ? draw / weight : -std::numeric_limits<double>::infinity();
  }
  std::vector<std::size_t> chosen(rows.rows);
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  const auto earlier = [&](std::size_t a, std::size_t b) { return keys[a] != keys[b] ? keys[a] > keys[b] : a < b; };
  std::ranges::nth_element(chosen, chosen.begin() + static_cast<std::ptrdiff_t>(count), earlier);
  chosen.resize(count);
  return chosen;
}

}  // namespace

std::string_view to_string(SupportSelect select) {
  return kSupportSelectNames.of(select);
}
SupportSelect parse_support_select(std::string_view name) {
  return kSupportSelectNames.parse(name);
}
std::vector<std::string_view> support_select_names() {
  return kSupportSelectNames.all();
}

void require_support(std::size_t support, std::size_t rows) {
  if (support == 0) refuse("the support has 0 rows, expected 1 or more");
  if (support <= rows) return;
  refuse("asked for a support of {} rows, but the spaces have only {} rows; lower the support", support, rows);
}

std::vector<std::size_t> select_rows(SupportSelect select, MatrixView<const float> rows, std::size_t count,
                                     std::uint64_t seed) {
  const Work work;
  require_support(count, rows.rows);
  std::vector<std::size_t> chosen;
  switch (select) {
    case SupportSelect::random: chosen = Random(seed).sample(rows.rows, count); break;
    case SupportSelect::fps: chosen = farthest_rows(rows, count, seed); break;
    case SupportSelect::kmeans: chosen = nearest_to_means(rows, count, seed); break;
    case SupportSelect::leverage: chosen = draw_by_length(rows, count, seed); break;
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace kedge
