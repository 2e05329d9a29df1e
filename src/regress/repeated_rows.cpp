// SPDX-License-Identifier: Apache-2.0
#include "regress/repeated_rows.h"

#include "base/eigen.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kedge {
namespace {

// Targets are float32, and products of the same rows may be rounded in another order.
constexpr double kRounding = 1e-5;

/// Among rows that ascend in their first target, the one with the targets of `row`; `row` itself if there is none.
std::size_t one_like(std::size_t row, std::span<const std::size_t> ascending, MatrixView<const double> targets,
                     double most) {
  const auto own = as_eigen(targets.row(row));
  for (std::size_t i = ascending.size(); i-- > 0;) {
    const auto other = as_eigen(targets.row(ascending[i]));
    if (own[0] - other[0] > most) break;
    if ((own - other).norm() <= most) return ascending[i];
  }
  return row;
}

}  // namespace

RepeatedRows::RepeatedRows(MatrixView<const double> rows) : rows_(rows.rows) {
  std::vector<std::size_t> order(rows.rows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto before = [&](std::size_t a, std::size_t b) {
    return std::ranges::lexicographical_compare(rows.row(a), rows.row(b));
  };
  std::ranges::stable_sort(order, before);
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end = std::find_if(begin, order.end(), [&](std::size_t row) { return before(*begin, row); });
    if (end - begin > 1) alike_.emplace_back(begin, end);
    begin = end;
  }
}

std::vector<std::size_t> RepeatedRows::stand_ins(MatrixView<const double> targets) const {
  std::vector<std::size_t> result(rows_);
  std::iota(result.begin(), result.end(), std::size_t{0});
  if (alike_.empty()) return result;
  const double most = kRounding * std::sqrt(as_eigen(targets).squaredNorm() / static_cast<double>(rows_));
  for (std::vector<std::size_t> group : alike_) {
    std::ranges::stable_sort(group, {}, [&](std::size_t row) { return targets.row(row)[0]; });
    std::vector<std::size_t> ascending;
    for (const std::size_t row : group) {
      result[row] = one_like(row, ascending, targets, most);
      if (result[row] == row) ascending.push_back(row);
    }
  }
  return result;
}

std::size_t RepeatedRows::distinct(MatrixView<const double> targets) const {
  std::size_t count = 0, row = 0;
  for (const std::size_t stand_in : stand_ins(targets)) count += stand_in == row++ ? 1 : 0;
  return count;
}

}  // namespace kedge
