// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"
#include "compute/lapack.h"
#include "compute/products.h"
#include "fit/attach.h"
#include "fit/fit.h"
#include "map/fold.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace kedge {
namespace {

/// One of the two spaces: where it is computed in, and its support rows there.
struct Side {
  const Statistics& statistics;
  Whitening coordinates;
  Matrix64 support;
};

Side side_of(Similarity similarity, const Statistics& statistics, Matrix64 support) {
  Side side{statistics, coordinates_of(similarity, statistics), std::move(support)};
  whiten(side.coordinates, side.support.view());
  return side;
}

/// The map whose value is `weight` times the coordinates.
Attachment direct(Similarity similarity, const Side& side, const EigenRows<double>& weight) {
  const EigenRows<double> folded = product(weight, side.coordinates.whitener.view());
  const Eigen::RowVectorXd mean = as_eigen(std::span(side.coordinates.mean));
  return {std::make_shared<RelativeMap>(
              fold(side.statistics.space(), similarity, folded, -product(mean, folded.transpose()), mean)),
          Directly{}, side.statistics.options().shrinkage};
}

SingularTriples correlate(MatrixView<const double> a, MatrixView<const double> b) {
  Matrix64 between(a.cols, b.cols);
  set_product(between.view(), as_eigen(a).transpose(), b);
  as_eigen(between.view()) /= static_cast<double>(a.rows);
  return svd(std::move(between));
}

/// The covariance to this power, which is symmetric.
EigenRows<double> power_of(const Whitening& coordinates, double power) {
  const auto vectors = as_eigen(coordinates.vectors.view());
  EigenRows<double> scaled = vectors;
  scaled.array().colwise() *= as_eigen(std::span(coordinates.values)).transpose().array().pow(power);
  return product(vectors.transpose(), scaled);
}

/// The way back from coordinates, which a regression could only come near to.
Decoder exact_decoder(const Side& side) {
  const std::size_t dim = side.support.cols();
  Decoder decoder{matrix_of<float>(power_of(side.coordinates, 0.5)),
                  std::vector<float>(dim),
                  {0, 0, std::vector<float>(dim, 1.0F), 1}};
  as_eigen(std::span(decoder.bias)) = as_eigen(std::span(side.coordinates.mean)).cast<float>();
  require_finite(side.statistics.space(), decoder.weight, decoder.bias);
  return decoder;
}

/// The shared space is the second's own coordinates.
Learned onto_second(const Side& b) {
  return {anchors_of_targets(matrix_of<float>(as_eigen(b.support.view()))), {}};
}

Attachment stay(Similarity similarity, const Side& side) {
  const auto dim = static_cast<Eigen::Index>(side.support.cols());
  return direct(similarity, side, EigenRows<double>::Identity(dim, dim));
}

/// Kernels are chosen by how near they come to the rows as they are, which is what a search in them looks at.
Learned regress_by_kernel(const Side& a, const Side& b, std::span<const Matrix64> supports, const FitOptions& options,
                          const Progress& progress) {
  Learned learned = onto_second(b);
  auto [there, fit] = translate_by_kernel(a.statistics, supports[0].view(), supports[1].view(), options.similarity,
                                          options.kernel, progress, &b.coordinates);
  auto [back, back_fit] = translate_by_kernel(b.statistics, supports[1].view(), supports[0].view(), options.similarity,
                                              options.kernel, progress);
  Attachment first{std::make_shared<RelativeMap>(std::move(there)),
                   ByKernel{std::move(fit), {}, std::make_shared<RelativeMap>(std::move(back)), std::move(back_fit)},
                   a.statistics.options().shrinkage};
  Attachment second = stay(options.similarity, b);
  second.decoder = std::make_shared<Decoder>(exact_decoder(b));
  learned.spaces = {std::move(first), std::move(second)};
  return learned;
}

/// Chosen, as a kernel is, by how near it comes to the rows as they are.
Learned regress(const Side& a, const Side& b, std::span<const Matrix64> supports, const FitOptions& options) {
  Learned learned = onto_second(b);
  const Eigen::RowVectorXd mean = as_eigen(std::span(b.coordinates.mean));
  const RidgeTargets targets(matrix_of<float>(as_eigen(supports[1].view()).rowwise() - mean));
  RidgeRows rows(supports[0], a.statistics);
  rows.prepare(options.similarity, a.statistics, !options.ridge, {}, true);
  Attachment first = RidgeSupport(targets, rows).map(options.similarity, a.statistics, options.ridge);
  const RelativeMap& map = *first.map;
  const EigenRows<double> weight = as_eigen(map.weight().view()).cast<double>();
  const Eigen::RowVectorXd bias = as_eigen(std::span(map.bias())).cast<double>();
  const auto whitener = b.coordinates.whitener.view();
  first.map = std::make_shared<RelativeMap>(fold(map.space(), options.similarity, product(whitener, weight),
                                                 product(bias, whitener), as_eigen(a.statistics.mean())));
  learned.spaces = {std::move(first), stay(options.similarity, b)};
  return learned;
}

/// The rows of both times what it returns, transposed, are nearest to each other.
EigenRows<double> find_rotation(const EigenRows<double>& a, const EigenRows<double>& b) {
  const SingularTriples triples = correlate(view_of(a), view_of(b));
  return product(as_eigen(triples.right.view()).transpose(), triples.left.view());
}

/// Both sides' support where they are whitened less: half, for one.
struct Partly {
  EigenRows<double> a, b;

  Partly(const Side& first, const Side& second, double whitening)
      : a(product(first.support.view(), power_of(first.coordinates, (1 - whitening) / 2))),
        b(product(second.support.view(), power_of(second.coordinates, (1 - whitening) / 2))) {}
};

constexpr std::size_t kParts = 3;

/// Which part of the rows each is in. Equal pairs are in one: they would foretell each other.
std::vector<std::size_t> parts_of(std::span<const Matrix64> supports) {
  const std::vector<std::size_t> like = RepeatedRows(supports[0].view()).stand_ins(supports[1].view());
  std::vector<std::size_t> parts(like.size());
  std::size_t distinct = 0;
  for (std::size_t row = 0; row < like.size(); ++row) {
    if (like[row] == row) parts[row] = distinct++ % kParts;
  }
  for (std::size_t row = 0; row < like.size(); ++row) parts[row] = parts[like[row]];
  return parts;
}

/// How much of the second side's rows a rotation found from other rows explains, if it may be scaled.
double held_out_score(const Partly& sides, const EigenRows<double>& to_rows, const EigenRows<double>& wanted,
                      std::span<const std::size_t> parts) {
  double alike = 0, square = 0;
  for (std::size_t part = 0; part < kParts; ++part) {
    std::vector<std::size_t> out, rest;
    for (std::size_t row = 0; row < parts.size(); ++row) (parts[row] == part ? out : rest).push_back(row);
    const EigenRows<double> from = sides.a(out, Eigen::all);
    const EigenRows<double> turned =
        product(from, find_rotation(sides.a(rest, Eigen::all), sides.b(rest, Eigen::all)).transpose());
    const EigenRows<double> found = product(turned, to_rows);
    alike += (found.array() * wanted(out, Eigen::all).array()).sum();
    square += found.squaredNorm();
  }
  return alike > 0 ? alike * alike / square : 0;
}

/// Whether directions of little variance, which whitening has blown up, would turn the rotation by their noise.
bool is_better_half_whitened(const Side& a, const Side& b, const Partly& half, std::span<const std::size_t> parts) {
  const EigenRows<double> wanted = product(b.support.view(), power_of(b.coordinates, 0.5));
  return held_out_score(half, power_of(b.coordinates, kHalf / 2), wanted, parts) >
         held_out_score({a, b, 1}, power_of(b.coordinates, 0.5), wanted, parts);
}

/// None where whole whitening is as good, or rows are too few to hold some of them out.
std::optional<EigenRows<double>> rotate_half_whitened(const Side& a, const Side& b,
                                                      std::span<const Matrix64> supports) {
  constexpr std::size_t kLeastRows = 10;
  if (RepeatedRows(supports[0].view()).distinct(supports[1].view()) < kLeastRows) return {};
  const Partly half(a, b, kHalf);
  if (!is_better_half_whitened(a, b, half, parts_of(supports))) return {};
  // In whitened coordinates again, and between rows of the same spread.
  const EigenRows<double> turned = product(find_rotation(half.a, half.b), power_of(a.coordinates, (1 - kHalf) / 2));
  return half.b.norm() / half.a.norm() * product(power_of(b.coordinates, (kHalf - 1) / 2), turned);
}

Learned rotate(const Side& a, const Side& b, std::span<const Matrix64> supports, Similarity similarity) {
  std::optional<EigenRows<double>> rotation;
  if (similarity == Similarity::wip) rotation = rotate_half_whitened(a, b, supports);
  if (!rotation) rotation = find_rotation(as_eigen(a.support.view()), as_eigen(b.support.view()));
  Learned learned = onto_second(b);
  learned.spaces = {direct(similarity, a, *rotation), stay(similarity, b)};
  return learned;
}

Learned correlate_canonically(const Side& a, const Side& b, const FitOptions& options) {
  const SingularTriples triples = correlate(a.support.view(), b.support.view());
  const auto anchors =
      static_cast<Eigen::Index>(std::min(anchor_count(options, a.support.rows()), triples.values.size()));
  EigenRows<double> left = as_eigen(triples.left.view()).topRows(anchors);
  EigenRows<double> right = as_eigen(triples.right.view()).topRows(anchors);
  for (Eigen::Index i = 0; i < anchors; ++i) {
    const double weight =
        std::pow(triples.values[static_cast<std::size_t>(i)], std::get<Adapter>(options.method).power);
    left.row(i) *= weight;
    right.row(i) *= weight;
  }
  Learned learned{anchors_of_targets(matrix_of<float>(product(b.support.view(), right.transpose()))), {}};
  learned.spaces = {direct(options.similarity, a, left), direct(options.similarity, b, right)};
  return learned;
}

}  // namespace

void require_adapter(std::size_t spaces, const FitOptions& options) {
  if (spaces != 2) {
    refuse("{} aligns one pair of spaces, but {} were given; give two, or use consensus or param for more",
           to_string(options.method), spaces);
  }
  const bool canonical = is_adapter(options.method, Pairwise::cca);
  if (options.similarity == Similarity::wip || (options.similarity == Similarity::inner && !canonical)) return;
  refuse("{} works with the similarity wip (whitened rows){}, not with {}", to_string(options.method),
         canonical ? "" : " or inner (rows as they are)", to_string(options.similarity));
}

Learned fit_adapter(std::span<const Statistics> statistics, std::span<const Matrix64> supports, const Recipe& made,
                    const FitOptions& options, const Progress& progress) {
  const Side a = side_of(made.similarity, statistics[0], supports[0]);
  const Side b = side_of(made.similarity, statistics[1], supports[1]);
  if (is_adapter(made.method, Pairwise::ridge)) return regress(a, b, supports, options);
  if (is_adapter(made.method, Pairwise::kernel)) return regress_by_kernel(a, b, supports, options, progress);
  if (is_adapter(made.method, Pairwise::procrustes)) return rotate(a, b, supports, made.similarity);
  return correlate_canonically(a, b, options);
}

}  // namespace kedge
