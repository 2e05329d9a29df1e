// SPDX-License-Identifier: Apache-2.0
#include "fit/adapter.h"

#include "compute/products.h"
#include "compute/lapack.h"
#include "fit/fit_options.h"
#include "map/fold.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kedge {
namespace {

/// One of the two spaces: where it is computed in, and its support rows there.
struct Side {
  const Statistics& statistics;
  Whitening coordinates;
  Matrix64 support;
};

Side side_of(const Bundle& bundle, const Statistics& statistics, Matrix64 support) {
  Side side{statistics, coordinates_of(bundle.similarity, statistics), std::move(support)};
  whiten(side.coordinates, side.support.view());
  return side;
}

/// The map whose value is `weight` times the coordinates.
Attachment direct(const Bundle& bundle, const Side& side, const EigenRows<double>& weight) {
  const EigenRows<double> folded = product(weight, side.coordinates.whitener.view());
  const Eigen::RowVectorXd mean = as_eigen(std::span(side.coordinates.mean));
  return {std::make_shared<RelativeMap>(
              fold(side.statistics.space(), bundle.similarity, folded, -product(mean, folded.transpose()), mean)),
          AttachBy::direct,
          side.statistics.options.shrinkage,
          {},
          {}};
}

Matrix as_float(const EigenRows<double>& matrix) {
  Matrix result(static_cast<std::size_t>(matrix.rows()), static_cast<std::size_t>(matrix.cols()));
  as_eigen(result.view()) = matrix.cast<float>();
  return result;
}

SingularTriples correlate(const Side& a, const Side& b) {
  Matrix64 between(a.support.cols(), b.support.cols());
  set_product(between.view(), as_eigen(a.support.view()).transpose(), b.support.view());
  as_eigen(between.view()) /= static_cast<double>(a.support.rows());
  return svd(std::move(between));
}

EigenRows<double> identity(std::size_t dim) {
  return EigenRows<double>::Identity(static_cast<Eigen::Index>(dim), static_cast<Eigen::Index>(dim));
}

/// The way back from coordinates, which a regression could only come near to.
Decoder exact_decoder(const Side& side) {
  const std::size_t dim = side.support.cols();
  const auto vectors = as_eigen(side.coordinates.vectors.view());
  EigenRows<double> scaled = vectors;
  scaled.array().colwise() *= as_eigen(std::span(side.coordinates.values)).transpose().array().sqrt();
  Decoder decoder{as_float(product(vectors.transpose(), scaled)),
                  std::vector<float>(dim),
                  {0, 0, std::vector<float>(dim, 1.0F), 1}};
  as_eigen(std::span(decoder.bias)) = as_eigen(std::span(side.coordinates.mean)).cast<float>();
  require_finite(side.statistics.space(), decoder.weight, decoder.bias);
  return decoder;
}

/// Kernels are chosen by how near they come to the rows as they are, which is what a search in them looks at.
void regress_by_kernel(Bundle& bundle, const Side& a, const Side& b, std::span<const Matrix64> supports,
                       const FitOptions& options, const Progress& progress) {
  set_targets(bundle, as_float(as_eigen(b.support.view())));
  Attachment first = attach_by_kernel(RidgeTargets(bundle.targets), supports[0].view(), bundle.similarity, a.statistics,
                                      options.kernel, progress, supports[1].view());
  auto [back, fit] = translate_by_kernel(b.statistics, supports[1].view(), supports[0].view(), bundle.similarity,
                                         options.kernel, progress);
  first.reverse = std::make_shared<RelativeMap>(std::move(back));
  first.reverse_fit = std::move(fit);
  bundle.add(std::move(first));
  Attachment second = direct(bundle, b, identity(b.support.cols()));
  second.decoder = std::make_shared<Decoder>(exact_decoder(b));
  bundle.add(std::move(second));
}

void regress(Bundle& bundle, const Side& a, const Side& b, const Matrix64& support, const FitOptions& options) {
  set_targets(bundle, as_float(as_eigen(b.support.view())));
  bundle.add(Attacher(bundle).attach(support, a.statistics, {AttachBy::ridge, options.ridge}));
  bundle.add(direct(bundle, b, identity(b.support.cols())));
}

void rotate(Bundle& bundle, const Side& a, const Side& b) {
  const SingularTriples triples = correlate(a, b);
  const EigenRows<double> rotation = product(as_eigen(triples.right.view()).transpose(), triples.left.view());
  set_targets(bundle, as_float(as_eigen(b.support.view())));
  bundle.add(direct(bundle, a, rotation));
  bundle.add(direct(bundle, b, identity(b.support.cols())));
}

void correlate_canonically(Bundle& bundle, const Side& a, const Side& b, const FitOptions& options) {
  const SingularTriples triples = correlate(a, b);
  const auto anchors =
      static_cast<Eigen::Index>(std::min(anchor_count(options, a.support.rows()), triples.values.size()));
  EigenRows<double> left = as_eigen(triples.left.view()).topRows(anchors);
  EigenRows<double> right = as_eigen(triples.right.view()).topRows(anchors);
  for (Eigen::Index i = 0; i < anchors; ++i) {
    const double weight = std::pow(triples.values[static_cast<std::size_t>(i)], options.consensus.power);
    left.row(i) *= weight;
    right.row(i) *= weight;
  }
  set_targets(bundle, as_float(product(b.support.view(), right.transpose())));
  bundle.add(direct(bundle, a, left));
  bundle.add(direct(bundle, b, right));
}

}  // namespace

void require_adapter(std::size_t spaces, const FitOptions& options) {
  if (spaces != 2) {
    throw Error(
        Code::bad_argument,
        fmt::format("{} aligns one pair of spaces, but {} were given; give two, or use consensus or param for more",
                    to_string(options.method), spaces));
  }
  const bool canonical = options.method == Method::cca;
  if (options.similarity == Similarity::wip || (options.similarity == Similarity::inner && !canonical)) return;
  throw Error(Code::bad_argument,
              fmt::format("{} works with the similarity wip (whitened rows){}, not with {}", to_string(options.method),
                          canonical ? "" : " or inner (rows as they are)", to_string(options.similarity)));
}

void fit_adapter(Bundle& bundle, std::span<const Statistics> statistics, std::span<const Matrix64> supports,
                 const FitOptions& options, const Progress& progress) {
  const Side a = side_of(bundle, statistics[0], supports[0]);
  const Side b = side_of(bundle, statistics[1], supports[1]);
  if (bundle.method == Method::ridge) return regress(bundle, a, b, supports[0], options);
  if (bundle.method == Method::kernel) return regress_by_kernel(bundle, a, b, supports, options, progress);
  if (bundle.method == Method::procrustes) return rotate(bundle, a, b);
  return correlate_canonically(bundle, a, b, options);
}

}  // namespace kedge
