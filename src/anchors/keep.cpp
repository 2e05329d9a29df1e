// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <kedge/anchors.h>
#include <kedge/error.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace kedge {
namespace {

void require_convex(std::span<const float> weights, std::size_t anchor) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (std::ranges::all_of(weights, [](float weight) { return weight >= 0; }) && sum > 0) return;
  throw Error(Code::bad_argument, fmt::format("the largest weights of a mixture can be kept only if none is negative "
                                              "and some are above 0, which is not so for anchor {}; keep all of them",
                                              anchor));
}

/// `columns` is room for the numbers of the columns.
void keep_largest_of(std::span<float> weights, std::size_t keep, std::vector<std::size_t>& columns) {
  std::iota(columns.begin(), columns.end(), std::size_t{0});
  const auto dropped = columns.begin() + static_cast<std::ptrdiff_t>(keep);
  std::ranges::nth_element(columns, dropped, [&](std::size_t a, std::size_t b) {
    return weights[a] != weights[b] ? weights[a] > weights[b] : a < b;
  });
  // Where only zeros go, dividing by a sum that is 1 but for rounding would change the rest.
  if (std::all_of(dropped, columns.end(), [&](std::size_t column) { return weights[column] == 0; })) return;
  std::for_each(dropped, columns.end(), [&](std::size_t column) { weights[column] = 0; });
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (float& weight : weights) weight = static_cast<float>(weight / sum);
}

std::vector<std::size_t> used_columns(const Matrix& mixture) {
  std::vector<bool> used(mixture.cols());
  for (std::size_t r = 0; r < mixture.rows(); ++r) {
    for (std::size_t c = 0; c < mixture.cols(); ++c) used[c] = used[c] || mixture.row(r)[c] != 0;
  }
  std::vector<std::size_t> columns;
  for (std::size_t c = 0; c < used.size(); ++c) {
    if (used[c]) columns.push_back(c);
  }
  return columns;
}

Matrix with_columns(const Matrix& mixture, const std::vector<std::size_t>& columns) {
  Matrix smaller(mixture.rows(), columns.size());
  for (std::size_t r = 0; r < mixture.rows(); ++r) {
    for (std::size_t c = 0; c < columns.size(); ++c) smaller.row(r)[c] = mixture.row(r)[columns[c]];
  }
  return smaller;
}

}  // namespace

SparseMixture keep_largest(Matrix mixture, std::size_t keep) {
  std::vector<std::size_t> columns(mixture.cols());
  if (keep == 0 || keep >= mixture.cols()) {
    std::iota(columns.begin(), columns.end(), std::size_t{0});
    return {std::move(mixture), std::move(columns)};
  }
  for (std::size_t r = 0; r < mixture.rows(); ++r) {
    require_convex(mixture.row(r), r);
    keep_largest_of(mixture.row(r), keep, columns);
  }
  columns = used_columns(mixture);
  return {with_columns(mixture, columns), std::move(columns)};
}

}  // namespace kedge
