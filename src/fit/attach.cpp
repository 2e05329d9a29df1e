// SPDX-License-Identifier: Apache-2.0
#include "fit/attach.h"

#include "compute/products.h"
#include "map/fold.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <memory>
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
    mix_around_mean(bundle.mixture, support, statistics.moments.mean(), anchors);
  }
  return make_relative_map(name, bundle.similarity, anchors, statistics.moments, statistics.options);
}

}  // namespace

void set_targets(Bundle& bundle, Matrix targets) {
  bundle.mixture = Matrix(targets.cols(), targets.rows());
  as_eigen(bundle.mixture.view()) = as_eigen(targets.view()).transpose() / static_cast<float>(targets.rows());
  bundle.targets = std::move(targets);
}

Attacher::Attacher(const Bundle& bundle) : bundle_(bundle) {
  if (bundle.targets.rows() != 0) targets_.emplace(bundle.targets);
}

void Attacher::require_way(const Statistics& statistics, AttachBy by) const {
  const std::string& space = statistics.space();
  if (by == AttachBy::direct) {
    throw Error(Code::bad_argument, "only the two spaces of an adapter are fitted directly; attach others by ridge");
  }
  if (by == AttachBy::mixture && is_adapter(bundle_.method)) {
    throw Error(Code::bad_argument,
                fmt::format("{} has no anchors to mix, so '{}' cannot be attached by mixture; attach it by ridge",
                            to_string(bundle_.method), space));
  }
  if (by != AttachBy::mixture && bundle_.targets.rows() == 0) {
    throw Error(Code::bad_argument,
                fmt::format("space '{}' cannot be attached by {}: a bundle with the similarity {} has no targets to "
                            "regress; attach it by mixture, or fit with the similarity wip",
                            space, to_string(by), to_string(bundle_.similarity)));
  }
  if (bundle_.similarity == Similarity::wip) require_whitenable(statistics);
}

Attachment Attacher::regress(const RidgeSupport& rows, const Matrix64& support, const Statistics& statistics,
                             const AttachSettings& settings, const Progress& progress) const {
  std::optional<Attachment> line, curve;
  if (settings.by != AttachBy::kernel) {
    line = rows.map(bundle_.similarity, statistics, settings.ridge);
  }
  if (settings.by != AttachBy::ridge) {
    curve =
        attach_by_kernel(targets_.value(), support.view(), bundle_.similarity, statistics, settings.kernel, progress);
  }
  if (!line) return std::move(curve).value();
  if (!curve) return *std::move(line);
  const AttachChoice choice{line->ridge.value().error, curve->kernel.value().error};
  Attachment better = std::move(choice.kernel_error < choice.ridge_error ? curve : line).value();
  better.choice = choice;
  return better;
}

Attachment Attacher::attach(const Matrix64& support, const Statistics& statistics, const AttachSettings& settings,
                            const Progress& progress) const {
  const std::string& space = statistics.space();
  const AttachBy by = settings.by;
  require_way(statistics, by);
  std::optional<Attachment> attached;
  if (by == AttachBy::mixture) {
    attached = Attachment{std::make_shared<RelativeMap>(map_by_mixture(bundle_, space, support, statistics)), by, 0};
  }
  if (targets_) {
    RidgeRows rows(support, statistics);
    if (by == AttachBy::ridge || by == AttachBy::automatic) {
      rows.prepare(bundle_.similarity, statistics, !settings.ridge);
    }
    const RidgeSupport regressed(*targets_, rows);
    if (!attached) attached = regress(regressed, support, statistics, settings, progress);
    attached->decoder = std::make_shared<Decoder>(regressed.decoder(space));
  }
  attached.value().shrinkage = statistics.options.shrinkage;
  return std::move(attached).value();
}

Attachment Attacher::attach_by_ridge(const RidgeRows& rows, const Statistics& statistics,
                                     const AttachSettings& settings) const {
  require_way(statistics, AttachBy::ridge);
  const RidgeSupport regressed(targets_.value(), rows);
  Attachment attached = regressed.map(bundle_.similarity, statistics, settings.ridge);
  attached.decoder = std::make_shared<Decoder>(regressed.decoder(statistics.space()));
  attached.shrinkage = statistics.options.shrinkage;
  return attached;
}

}  // namespace kedge
