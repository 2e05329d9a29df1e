// SPDX-License-Identifier: Apache-2.0
// One embedding through a map, with nothing allocated and no other thread asked for.
#include "compute/cpu/kernels.h"
#include "map/fold.h"

#include <algorithm>
#include <array>

namespace kedge {
namespace {

// An embedding that has to be changed before the products is changed piece by piece, on the stack.
constexpr std::size_t kPiece = 1024;

/// out = weight x', or what else `add` takes of the two, where change(i) is value i of x'.
template <class Change>
void set_dots(const Matrix& weight, const Change& change, std::span<float> out,
              decltype(cpu::add_dots)& add = cpu::add_dots) {
  std::array<float, kPiece> piece;
  std::ranges::fill(out, 0.0F);
  for (std::size_t first = 0; first < weight.cols(); first += kPiece) {
    const std::size_t count = std::min(kPiece, weight.cols() - first);
    for (std::size_t i = 0; i < count; ++i) piece[i] = change(first + i);
    add(weight.view().middle_cols(first, count), std::span(piece).first(count), out);
  }
}

void apply_affine(const RelativeMap& map, std::span<const float> x, std::span<float> rr) {
  std::ranges::copy(map.bias(), rr.begin());
  cpu::add_dots(map.weight().view(), x, rr);
}

/// What makes it a row of length 1; squares of float32 stay in float64.
double unit_scale(std::span<const float> x) {
  const double length = as_eigen(x).cast<double>().norm();
  return length > 0 ? 1 / length : 1;
}

void apply_cosine(const RelativeMap& map, std::span<const float> x, std::span<float> rr) {
  const double scale = unit_scale(x);
  set_dots(
      map.weight(), [&](std::size_t i) { return static_cast<float>(x[i] * scale); }, rr);
}

/// As for a block of rows, see there.
void apply_euclidean(const RelativeMap& map, std::span<const float> x, std::span<float> rr) {
  const auto centred = as_eigen(x) - as_eigen(std::span(map.mean()));
  set_dots(
      map.weight(), [&](std::size_t i) { return x[i] - map.mean()[i]; }, rr);
  const float length = centred.squaredNorm();
  for (std::size_t a = 0; a < rr.size(); ++a) {
    const auto anchor = as_eigen(map.weight().row(a));
    rr[a] = distance(length, map.bias()[a], rr[a], [&] { return (centred - anchor).squaredNorm(); });
  }
}

void apply_angular(const RelativeMap& map, std::span<const float> x, std::span<float> rr) {
  apply_cosine(map, x, rr);
  const double scale = unit_scale(x);
  for (std::size_t a = 0; a < rr.size(); ++a) {
    const auto anchor = as_eigen(map.weight().row(a)).cast<double>();
    rr[a] = angular(rr[a], [&](int sign) {
      return (scale * as_eigen(x).cast<double>() - static_cast<double>(sign) * anchor).squaredNorm();
    });
  }
}

void apply_manhattan(const RelativeMap& map, std::span<const float> x, std::span<float> rr) {
  set_dots(
      map.weight(), [&](std::size_t i) { return x[i] - map.mean()[i]; }, rr, cpu::add_differences);
}

}  // namespace

void RelativeMap::apply(std::span<const float> x, std::span<float> rr) const {
  if (x.size() != input_dim() || rr.size() != output_dim()) {  // which it says in a sentence
    return apply(MatrixView<const float>{x.data(), 1, x.size(), x.size()}, {rr.data(), 1, rr.size(), rr.size()});
  }
  require_apart({x.data(), 1, x.size(), x.size()}, {rr.data(), 1, rr.size(), rr.size()});
  if (kernel_) return apply_kernel(kernel_function(*this), x, rr);
  switch (similarity_) {
    case Similarity::wip:
    case Similarity::inner: return apply_affine(*this, x, rr);
    case Similarity::cosine: return apply_cosine(*this, x, rr);
    case Similarity::euclidean: return apply_euclidean(*this, x, rr);
    case Similarity::angular: return apply_angular(*this, x, rr);
    case Similarity::manhattan: return apply_manhattan(*this, x, rr);
  }
}

}  // namespace kedge
