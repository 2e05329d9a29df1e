// SPDX-License-Identifier: Apache-2.0
#include "map/attach.h"

#include "backend/products.h"
#include "backend/threads.h"
#include "map/fold.h"
#include "map/judge.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/fit.h>
#include <kedge/wording.h>

#include <cmath>
#include <utility>

namespace kedge {
namespace {

/// Anchors are mixed around the mean, so that a signed mixture, whose rows sum to anything, means the same as a convex
/// one: where they sum to 1 the mean cancels.
void mix_around_mean(const Matrix& mixture, const Matrix64& support, std::span<const double> mean, Matrix64& anchors) {
  auto mixed = as_eigen(anchors.view());
  const EigenRows<double> centred = as_eigen(support.view()).rowwise() - as_eigen(mean);
  const EigenRows<double> weights = as_eigen(mixture.view()).cast<double>();
  set_product(mixed, weights, centred);
  mixed.rowwise() += as_eigen(mean);
}

/// A convex mixture needs no mean, which one row far outside the others can make so large that theirs are lost in it.
void mix(const Matrix& mixture, const Matrix64& support, Matrix64& anchors) {
  EigenRows<double> weights = as_eigen(mixture.view()).cast<double>();
  for (Eigen::Index r = 0; r < weights.rows(); ++r) weights.row(r) /= weights.row(r).sum();  // 1 but for rounding
  set_product(anchors.view(), weights, support.view());
}

RelativeMap map_by_mixture(const Bundle& bundle, const std::string& name, const Matrix64& support,
                           const Statistics& statistics) {
  Matrix64 anchors(bundle.mixture.rows(), support.cols());
  if (is_convex(bundle.method) && bundle.similarity != Similarity::wip) {
    mix(bundle.mixture, support, anchors);
  } else {
    mix_around_mean(bundle.mixture, support, statistics.moments.mean, anchors);
  }
  return make_relative_map(name, bundle.similarity, anchors, statistics.moments, statistics.options);
}

/// The support rows, in support order, after checking that the space can have them.
Matrix64 support_of(const Bundle& bundle, const Space& space, bool support_rows) {
  if (!support_rows) return space.gather(bundle.support_ids);
  const std::size_t needed = bundle.support_ids.size();
  if (space.rows() != needed) {
    throw Error(Code::bad_file, fmt::format("space '{}': the bundle was made from {} support rows, but {} has {}; give "
                                            "only those rows, in support order",
                                            space.name(), needed, space.source().label(), space.rows()));
  }
  std::vector<std::int64_t> in_order(needed);
  for (std::size_t i = 0; i < needed; ++i) in_order[i] = space.file_row(i);
  return space.gather(in_order);
}

Statistics statistics_by(WhiteningOptions options, ShrinkageRule rule, const Space& space, Moments moments,
                         Device device) {
  if (rule != ShrinkageRule::fixed) options.shrinkage = choose_shrinkage(rule, space, moments);
  return {std::move(moments), options, {}, device};
}

}  // namespace

Statistics statistics_of(const Bundle& bundle, const Space& space, Moments moments, Device device) {
  return statistics_by(bundle.whitening, bundle.shrinkage_rule, space, std::move(moments), device);
}

Statistics statistics_of(const Space& space, const WhiteningOptions& options, ShrinkageRule rule, bool whitened,
                         Device device, const Progress& progress) {
  Statistics statistics = statistics_by(options, rule, space, compute_moments(space, progress, device), device);
  if (whitened) statistics.whitening = whitening_of(statistics);
  return statistics;
}

void require_whitenable(const Space& space, const Statistics& statistics) {
  constexpr double kDrowned = 10;  // so many times the variance, and the whitened rows are no longer white
  const Moments& moments = statistics.moments;
  const double variance = as_eigen(moments.covariance.view()).trace() / static_cast<double>(moments.mean.size());
  if (statistics.options.epsilon <= kDrowned * variance) return;
  throw Error(Code::bad_file, fmt::format("space '{}': its values vary by {:.1e} on average, so little that the "
                                          "epsilon of {:.1e} added to their variance drowns them out; rescale the "
                                          "embeddings, e.g. divide them by their standard deviation, or lower epsilon",
                                          space.name(), std::sqrt(variance), statistics.options.epsilon));
}

Whitening whitening_of(const Statistics& statistics) {
  if (statistics.whitening) return *statistics.whitening;
  return make_whitening(statistics.moments, statistics.options, statistics.device);
}

Whitening coordinates_of(Similarity similarity, const Statistics& statistics) {
  if (similarity == Similarity::wip) return whitening_of(statistics);
  const Moments& moments = statistics.moments;
  const std::size_t dim = moments.mean.size();
  const double spread = as_eigen(moments.covariance.view()).trace();
  Whitening scaled{moments.mean, moments.covariance, Matrix64(dim, dim), std::vector<double>(dim, spread),
                   Matrix64(dim, dim)};
  as_eigen(scaled.whitener.view()).diagonal().setConstant(1 / std::sqrt(spread));
  as_eigen(scaled.vectors.view()).setIdentity();
  return scaled;
}

void set_targets(Bundle& bundle, Matrix targets) {
  bundle.mixture = Matrix(targets.cols(), targets.rows());
  as_eigen(bundle.mixture.view()) = as_eigen(targets.view()).transpose() / static_cast<float>(targets.rows());
  bundle.targets = std::move(targets);
}

Attacher::Attacher(const Bundle& bundle) : bundle_(bundle) {
  if (bundle.targets.rows() != 0) targets_.emplace(bundle.targets);
}

Attachment Attacher::attach(const Space& space, Matrix64 support, const Statistics& statistics, AttachBy by,
                            std::optional<double> ridge) const {
  if (by == AttachBy::direct) {
    throw Error(Code::bad_argument, "only the two spaces of an adapter are fitted directly; attach others by ridge");
  }
  if (by == AttachBy::mixture && is_adapter(bundle_.method)) {
    throw Error(Code::bad_argument,
                fmt::format("{} has no anchors to mix, so '{}' cannot be attached by mixture; attach it by ridge",
                            to_string(bundle_.method), space.name()));
  }
  if (by == AttachBy::ridge && !targets_) {
    throw Error(Code::bad_argument,
                fmt::format("space '{}' cannot be attached by ridge: a bundle with the similarity {} has no targets to "
                            "regress; attach it by mixture, or fit with the similarity wip",
                            space.name(), to_string(bundle_.similarity)));
  }
  if (bundle_.similarity == Similarity::wip) require_whitenable(space, statistics);
  std::optional<Attachment> attached;
  if (by == AttachBy::mixture) {
    attached = Attachment{map_by_mixture(bundle_, space.name(), support, statistics), by, 0};
  }
  if (targets_) {
    const RidgeSupport rows(*targets_, std::move(support), statistics.moments.mean);
    if (!attached) {
      attached = rows.map(space.name(), bundle_.similarity, coordinates_of(bundle_.similarity, statistics), ridge);
    }
    attached->decoder = rows.decoder(space.name());
  }
  attached.value().shrinkage = statistics.options.shrinkage;
  return std::move(attached).value();
}

Attachment attach(const Bundle& bundle, const Space& space, const AttachOptions& options, const Progress& progress) {
  const Work work;
  require_device(options.device);
  const AttachBy by = options.by.value_or(bundle.attach_by);
  if (options.ridge && by != AttachBy::ridge) {
    throw Error(Code::bad_argument, fmt::format("{} was given, but the space is attached by {}; give {}",
                                                option_words("ridge"), to_string(by), option_words("attach", "ridge")));
  }
  Matrix64 support = support_of(bundle, space, options.support_rows);
  Moments moments = compute_moments(space, progress, options.device);
  const Statistics statistics = statistics_of(bundle, space, std::move(moments), options.device);
  Attachment attached = Attacher(bundle).attach(space, std::move(support), statistics, by, options.ridge);
  judge_attached(attached, bundle, space, statistics, options.support_rows);
  return attached;
}

}  // namespace kedge
