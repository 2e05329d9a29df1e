// SPDX-License-Identifier: Apache-2.0
#include "map/attach.h"

#include "base/names.h"
#include "map/fold.h"
#include "train/ridge.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/fit.h>

#include <cmath>
#include <numeric>
#include <utility>

namespace kedge {
namespace {

constexpr Names<AttachBy, 3> kNames{"way to attach", {"mixture", "ridge", "direct"}};

Matrix64 as_double(const Matrix& matrix) {
  Matrix64 result(matrix.rows(), matrix.cols());
  as_eigen(result.view()) = as_eigen(matrix.view()).cast<double>();
  return result;
}

double strength_of(const Ridge& ridge, std::optional<double> asked) {
  if (!asked) return ridge.best();
  if (*asked >= 0 && std::isfinite(*asked)) return *asked;
  throw Error(Code::bad_argument, fmt::format("ridge is {}, expected a number of 0 or more", *asked));
}

/// Anchors are mixed around the mean, so that a signed mixture, whose rows sum to anything, means the same as a convex
/// one: where they sum to 1 the mean cancels.
RelativeMap map_by_mixture(const Bundle& bundle, const std::string& name, const Matrix64& support,
                           const Statistics& statistics) {
  const auto mean = as_eigen(std::span(statistics.moments.mean));
  Matrix64 anchors(bundle.mixture.rows(), support.cols());
  auto mixed = as_eigen(anchors.view());
  const EigenRows<double> centred = as_eigen(support.view()).rowwise() - mean;
  mixed.noalias() = as_eigen(bundle.mixture.view()).cast<double>() * centred;
  mixed.rowwise() += mean;
  return make_relative_map(name, bundle.similarity, anchors, statistics.moments, statistics.whitening);
}

Attachment attach_by_ridge(const Bundle& bundle, const std::string& name, const Matrix64& support,
                           const Statistics& statistics, std::optional<double> asked) {
  const Whitening coordinates = coordinates_of(bundle.similarity, statistics);
  Matrix64 features = support;
  whiten(coordinates, features.view());
  const Matrix64 targets = as_double(bundle.targets);
  const Ridge ridge(features.view(), targets.view());
  const double strength = strength_of(ridge, asked);
  const Matrix64 solution = ridge.solve(strength);
  const EigenRows<double> weight = as_eigen(solution.view()).transpose() * as_eigen(coordinates.whitener.view());
  const Eigen::RowVectorXd mean = as_eigen(std::span(coordinates.mean));
  return {fold(name, bundle.similarity, weight, -mean * weight.transpose(), mean),
          AttachBy::ridge,
          statistics.whitening.shrinkage,
          RidgeFit{strength, ridge.r2(strength), ridge.mean_r2(strength)},
          {}};
}

/// The support rows, in support order, after checking that the space can have them.
Matrix64 support_of(const Bundle& bundle, const Space& space, AttachFrom from) {
  if (from == AttachFrom::all_rows) return space.gather(bundle.support_ids);
  const std::size_t needed = bundle.support_ids.size();
  if (space.rows() != needed) {
    throw Error(Code::bad_file,
                fmt::format("space '{}': the bundle was made from {} support rows, but {} has {}; give just "
                            "those rows, in support order",
                            space.name(), needed, space.source().label(), space.rows()));
  }
  std::vector<std::int64_t> in_order(needed);
  std::iota(in_order.begin(), in_order.end(), static_cast<std::int64_t>(space.range().begin));
  return space.gather(in_order);
}

}  // namespace

std::string_view to_string(AttachBy by) {
  return kNames.of(by);
}
AttachBy parse_attach_by(std::string_view name) {
  return kNames.parse(name);
}

Statistics statistics_of(const Bundle& bundle, const Space& space, Moments moments) {
  WhiteningOptions whitening = bundle.whitening;
  if (bundle.shrinkage_rule != ShrinkageRule::fixed) {
    whitening.shrinkage = choose_shrinkage(bundle.shrinkage_rule, space, moments);
  }
  return {std::move(moments), whitening};
}

Whitening coordinates_of(Similarity similarity, const Statistics& statistics) {
  if (similarity == Similarity::wip) return make_whitening(statistics.moments, statistics.whitening);
  const Moments& moments = statistics.moments;
  Whitening scaled{moments.mean, moments.covariance, Matrix64(moments.mean.size(), moments.mean.size())};
  const double spread = std::sqrt(as_eigen(moments.covariance.view()).trace());
  as_eigen(scaled.whitener.view()).diagonal().setConstant(1 / spread);
  return scaled;
}

void set_targets(Bundle& bundle, Matrix targets) {
  bundle.mixture = Matrix(targets.cols(), targets.rows());
  as_eigen(bundle.mixture.view()) = as_eigen(targets.view()).transpose() / static_cast<float>(targets.rows());
  bundle.targets = std::move(targets);
}

Attachment attach_rows(const Bundle& bundle, const Space& space, const Matrix64& support, const Statistics& statistics,
                       AttachBy by, std::optional<double> ridge) {
  if (by == AttachBy::mixture) {
    return {map_by_mixture(bundle, space.name(), support, statistics), by, statistics.whitening.shrinkage, {}, {}};
  }
  if (by == AttachBy::direct) {
    throw Error(Code::bad_argument, "only the two spaces of an adapter are fitted directly; attach others by ridge");
  }
  if (bundle.targets.rows() == 0) {
    throw Error(Code::bad_argument,
                fmt::format("space '{}' cannot be attached by ridge: a bundle with the similarity {} has no targets to "
                            "regress; attach it by mixture, or fit with the similarity wip",
                            space.name(), to_string(bundle.similarity)));
  }
  return attach_by_ridge(bundle, space.name(), support, statistics, ridge);
}

Decoder decoder_of(const Bundle& bundle, const Space& space, const Matrix64& support) {
  Matrix64 features = as_double(bundle.targets);
  Matrix64 rows = support;
  auto z = as_eigen(features.view());
  auto x = as_eigen(rows.view());
  const Eigen::RowVectorXd mean_z = column_means(z);
  const Eigen::RowVectorXd mean_x = column_means(x);
  z.rowwise() -= mean_z;
  x.rowwise() -= mean_x;
  const Ridge ridge(features.view(), rows.view());
  const double strength = ridge.best();
  const Matrix64 solution = ridge.solve(strength);
  Decoder decoder{Matrix(support.cols(), bundle.targets.cols()),
                  std::vector<float>(support.cols()),
                  {strength, ridge.r2(strength), ridge.mean_r2(strength)}};
  as_eigen(decoder.weight.view()) = as_eigen(solution.view()).transpose().cast<float>();
  as_eigen(std::span(decoder.bias)) = (mean_x - mean_z * as_eigen(solution.view())).cast<float>();
  require_finite(space.name(), decoder.weight, decoder.bias);
  return decoder;
}

Attachment attach(const Bundle& bundle, const Space& space, const AttachOptions& options, const Progress& progress) {
  const Matrix64 support = support_of(bundle, space, options.from);
  const Statistics statistics = statistics_of(bundle, space, compute_moments(space, progress));
  Attachment attached =
      attach_rows(bundle, space, support, statistics, options.by.value_or(bundle.attach_by), options.ridge);
  if (bundle.targets.rows() != 0) attached.decoder = decoder_of(bundle, space, support);
  return attached;
}

}  // namespace kedge
