// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"
#include "compute/lapack.h"
#include "compute/products.h"
#include "fit/attach.h"
#include "fit/fit.h"
#include "map/fold.h"

#include <algorithm>
#include <cmath>

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

SingularTriples correlate(const Side& a, const Side& b) {
  Matrix64 between(a.support.cols(), b.support.cols());
  set_product(between.view(), as_eigen(a.support.view()).transpose(), b.support.view());
  as_eigen(between.view()) /= static_cast<double>(a.support.rows());
  return svd(std::move(between));
}

/// The way back from coordinates, which a regression could only come near to.
Decoder exact_decoder(const Side& side) {
  const std::size_t dim = side.support.cols();
  const auto vectors = as_eigen(side.coordinates.vectors.view());
  EigenRows<double> scaled = vectors;
  scaled.array().colwise() *= as_eigen(std::span(side.coordinates.values)).transpose().array().sqrt();
  Decoder decoder{matrix_of<float>(product(vectors.transpose(), scaled)),
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
  Attachment first = attach_by_kernel(RidgeTargets(learned.anchors.targets), supports[0].view(), options.similarity,
                                      a.statistics, options.kernel, progress, supports[1].view());
  auto [back, fit] = translate_by_kernel(b.statistics, supports[1].view(), supports[0].view(), options.similarity,
                                         options.kernel, progress);
  auto& by = std::get<ByKernel>(first.by);
  by.reverse = std::make_shared<RelativeMap>(std::move(back));
  by.reverse_fit = std::move(fit);
  Attachment second = stay(options.similarity, b);
  second.decoder = std::make_shared<Decoder>(exact_decoder(b));
  learned.spaces = {std::move(first), std::move(second)};
  return learned;
}

Learned regress(const Side& a, const Side& b, const Matrix64& support, const Recipe& made, const FitOptions& options) {
  Learned learned = onto_second(b);
  const Attacher attacher(made, learned.anchors);
  learned.spaces = {attacher.attach(support, a.statistics, {AttachBy::ridge, options.ridge}),
                    stay(options.similarity, b)};
  return learned;
}

Learned rotate(const Side& a, const Side& b, Similarity similarity) {
  const SingularTriples triples = correlate(a, b);
  const EigenRows<double> rotation = product(as_eigen(triples.right.view()).transpose(), triples.left.view());
  Learned learned = onto_second(b);
  learned.spaces = {direct(similarity, a, rotation), stay(similarity, b)};
  return learned;
}

Learned correlate_canonically(const Side& a, const Side& b, const FitOptions& options) {
  const SingularTriples triples = correlate(a, b);
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
  if (is_adapter(made.method, Pairwise::ridge)) return regress(a, b, supports[0], made, options);
  if (is_adapter(made.method, Pairwise::kernel)) return regress_by_kernel(a, b, supports, options, progress);
  if (is_adapter(made.method, Pairwise::procrustes)) return rotate(a, b, made.similarity);
  return correlate_canonically(a, b, options);
}

}  // namespace kedge
