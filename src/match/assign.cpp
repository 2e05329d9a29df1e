// SPDX-License-Identifier: Apache-2.0
#include "match/assign.h"

#include "base/arithmetic.h"
#include "base/eigen.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace kedge {
namespace {

/// gains[i] -= (f_i - f) (e_i - e) for one i and all before it.
KEDGE_EVERY_PROCESSOR void update_gains(double* gains, const double* f, const double* e, std::size_t i) {
  const double own_f = f[i], own_e = e[i];
  for (std::size_t k = 0; k < i; ++k) gains[k] -= (own_f - f[k]) * (own_e - e[k]);
}

/// to[i] = sum_k (first[k,a] - first[k,i]) (second[k,i] - second[k,a]) over k other than a: row by row, as sums along a
/// row would not become vector instructions.
KEDGE_EVERY_PROCESSOR void sum_exchanges(const double* first, const double* second, std::size_t count, std::size_t a,
                                         double* to) {
  for (std::size_t i = 0; i < count; ++i) to[i] = 0;
  for (std::size_t k = 0; k < count; ++k) {
    if (k == a) continue;
    const double *f = first + k * count, *d = second + k * count;
    const double fa = f[a], da = d[a];
    for (std::size_t i = 0; i < count; ++i) to[i] += (fa - f[i]) * (d[i] - da);
  }
}

KEDGE_EVERY_PROCESSOR double largest(const double* values, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  double lanes[kLanes];
  for (double& lane : lanes) lane = -std::numeric_limits<double>::infinity();
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t k = 0; k < kLanes; ++k) lanes[k] = lanes[k] < values[i + k] ? values[i + k] : lanes[k];
  }
  for (; i < count; ++i) lanes[0] = lanes[0] < values[i] ? values[i] : lanes[0];
  return *std::ranges::max_element(lanes);
}

}  // namespace

SwapSearch::SwapSearch(const Matrix64& first, const Matrix64& second, const Matrix64& linear,
                       std::vector<std::size_t> order)
    : first_(first),
      second_(second),
      linear_(linear),
      order_(std::move(order)),
      permuted_(first.rows(), first.rows()),
      gains_(first.rows(), first.rows()),
      f_(first.rows()),
      e_(first.rows()) {
  const std::size_t count = order_.size();
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < count; ++k) permuted_.row(i)[k] = second_.row(order_[i])[order_[k]];
  }
  for (std::size_t a = 0; a < count; ++a) set_gains(a);
}

void SwapSearch::set_gains(std::size_t a) {
  const std::size_t count = order_.size();
  const auto fa = first_.row(a), da = std::as_const(permuted_).row(a);
  sum_exchanges(first_.cells().data(), permuted_.cells().data(), count, a, e_.data());
  for (std::size_t i = 0; i < count; ++i) {
    if (i == a) continue;
    const double own_f = first_.row(i)[i], own_d = permuted_.row(i)[i];
    double gain = 2 * (e_[i] - (fa[i] - own_f) * (own_d - da[i]));
    gain += (fa[a] - own_f) * (own_d - da[a]);
    if (linear_.rows() != 0) {
      gain += linear_.row(a)[order_[i]] + linear_.row(i)[order_[a]];
      gain -= linear_.row(a)[order_[a]] + linear_.row(i)[order_[i]];
    }
    gains_.row(std::max(a, i))[std::min(a, i)] = gain;
  }
}

SwapSearch::Swap SwapSearch::best() const {
  Swap found;
  for (std::size_t a = 1; a < order_.size(); ++a) {
    const double gain = largest(gains_.row(a).data(), a);
    if (gain > found.gain) found = {gain, a, 0};
  }
  const auto gains = gains_.row(found.a).first(found.a);
  found.b = static_cast<std::size_t>(std::ranges::find(gains, found.gain) - gains.begin());
  return found;
}

void SwapSearch::apply(std::size_t a, std::size_t b) {
  const std::size_t count = order_.size();
  for (std::size_t i = 0; i < count; ++i) {
    f_[i] = 2 * (first_.row(i)[a] - first_.row(i)[b]);
    e_[i] = permuted_.row(i)[b] - permuted_.row(i)[a];
  }
  // Of a pair that stays, the gain changes only through its products with the two rows that are swapped.
  for (std::size_t i = 1; i < count; ++i) {
    if (i != a && i != b) update_gains(gains_.row(i).data(), f_.data(), e_.data(), i);
  }
  std::swap(order_[a], order_[b]);
  std::ranges::swap_ranges(permuted_.row(a), permuted_.row(b));
  for (std::size_t i = 0; i < count; ++i) std::swap(permuted_.row(i)[a], permuted_.row(i)[b]);
  set_gains(a);
  set_gains(b);
}

double assignment_value(const Matrix64& first, const Matrix64& second, const Matrix64& linear,
                        const std::vector<std::size_t>& order) {
  double value = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t k = 0; k < order.size(); ++k) value += first.row(i)[k] * second.row(order[i])[order[k]];
    if (linear.rows() != 0) value += linear.row(i)[order[i]];
  }
  return value;
}

std::vector<std::size_t> assign(const Matrix64& first, const Matrix64& second, const Matrix64& linear,
                                std::size_t starts, Random& random) {
  // What rounding makes of a gain that is 0 must not keep a search going for ever.
  const double least = 1e-12 * as_eigen(first.view()).cwiseAbs().sum() * as_eigen(second.view()).cwiseAbs().maxCoeff();
  std::vector<std::size_t> best;
  double most = -std::numeric_limits<double>::infinity();
  for (std::size_t start = 0; start < starts; ++start) {
    SwapSearch search(first, second, linear, random.sample(first.rows(), first.rows()));
    for (auto swap = search.best(); swap.gain > least; swap = search.best()) search.apply(swap.a, swap.b);
    const double value = assignment_value(first, second, linear, search.order());
    if (value <= most) continue;
    most = value;
    best = search.order();
  }
  return best;
}

}  // namespace kedge
