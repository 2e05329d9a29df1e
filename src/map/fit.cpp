// SPDX-License-Identifier: Apache-2.0
#include "map/fit.h"

#include "backend/threads.h"
#include "base/eigen.h"
#include "map/adapter.h"
#include "map/fit_options.h"
#include "map/fold.h"
#include "map/judge.h"
#include "map/support.h"
#include "train/consensus.h"
#include "train/param.h"
#include "train/refine.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/fit.h>
#include <kedge/version.h>

#include <utility>

namespace kedge {
namespace {

void require_whitenable(std::span<const Space> spaces, std::span<const Statistics> statistics) {
  for (std::size_t i = 0; i < spaces.size(); ++i) kedge::require_whitenable(spaces[i], statistics[i]);
}

std::vector<Whitening> whitenings_of(std::span<const Statistics> statistics) {
  std::vector<Whitening> result;
  for (const Statistics& own : statistics) {
    result.push_back(whitening_of(own));
  }
  return result;
}

void learn_param(Bundle& bundle, std::span<const Space> spaces, std::span<const Statistics> statistics,
                 const FitOptions& options, const Progress& progress) {
  const auto backend = make_backend(options.device, options.precision);
  const ParamTask task{spaces,       bundle.support_ids, anchor_count(options, spaces.front().rows()),
                       options.seed, options.whitening,  options.shrinkage_rule};
  ParamResult learned =
      learn_mixture(*backend, task, whitenings_of(statistics), options.param, options.checkpoint, progress);
  bundle.mixture = std::move(learned.mixture);
  bundle.history = std::move(learned.history);
  bundle.param = options.param;
}

void choose_mixture(Bundle& bundle, std::span<const Space> spaces, std::span<const Statistics> statistics,
                    const FitOptions& options, const Progress& progress) {
  if (progress) progress({"choosing anchors", 0, 1, ""});
  const std::size_t anchors = anchor_count(options, spaces.front().rows());
  if (options.method == Method::random) {  // whitening a wide space takes minutes, and nobody looks
    const MatrixView<const float> unread{nullptr, bundle.support_ids.size(), 0, 0};
    bundle.mixture = choose_anchors(options.method, unread, anchors, options.seed);
  } else {
    const Matrix coordinates = support_coordinates(bundle, spaces, statistics);
    bundle.mixture = choose_anchors(options.method, coordinates.view(), anchors, options.seed);
  }
  if (progress) progress({"choosing anchors", 1, 1, ""});
}

/// The support shrinks with the mixture, so that an encoder to be attached has fewer rows to embed.
void keep_largest_weights(Bundle& bundle) {
  if (bundle.keep == 0) return;
  SparseMixture sparse = keep_largest(std::move(bundle.mixture), bundle.keep);
  std::vector<std::int64_t> ids;
  for (const std::size_t column : sparse.columns) ids.push_back(bundle.support_ids[column]);
  bundle.mixture = std::move(sparse.mixture);
  bundle.support_ids = std::move(ids);
}

/// Attaches the sources by mixture. For wip the mean of their RR at the support becomes what ridge regresses, as the
/// mixture was found without targets.
void attach_by_mixture(Bundle& bundle, std::span<const Space> spaces, std::span<const Statistics> statistics) {
  const Attacher attacher(bundle);
  const bool regressible = bundle.similarity == Similarity::wip;
  Matrix mean_rr(regressible ? bundle.support_ids.size() : 0, bundle.mixture.rows());
  auto sum = as_eigen(mean_rr.view());
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    Matrix64 support = spaces[i].gather(bundle.support_ids);
    Matrix rows(mean_rr.rows(), support.cols());
    if (regressible) as_eigen(rows.view()) = as_eigen(support.view()).cast<float>();
    bundle.add(attacher.attach(spaces[i], std::move(support), statistics[i], AttachBy::mixture, {}));
    if (!regressible) continue;
    const Matrix rr = bundle.map(spaces[i].name()).apply(rows.view());
    require_finite(spaces[i].name(), rr, {});
    sum += as_eigen(rr.view());
  }
  if (!regressible) return;
  sum /= static_cast<float>(spaces.size());
  bundle.targets = std::move(mean_rr);
}

void attach_sources(Bundle& bundle, std::span<const Space> spaces, std::span<const Statistics> statistics, AttachBy by,
                    const FitOptions& options) {
  const Attacher attacher(bundle);
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    bundle.add(attacher.attach(spaces[i], spaces[i].gather(bundle.support_ids), statistics[i], by, options.ridge));
  }
}

/// For spaces that were attached before the targets were known.
void add_decoders(Bundle& bundle, std::span<const Space> spaces, std::span<const Statistics> statistics) {
  const RidgeTargets targets(bundle.targets);
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    const RidgeSupport rows(targets, spaces[i].gather(bundle.support_ids), statistics[i].moments.mean);
    bundle.spaces[i].decoder = rows.decoder(spaces[i].name());
  }
}

/// Everything that can be said before any row is read.
Bundle prepare(std::span<const Space> spaces, const FitOptions& options) {
  require_parallel(spaces);
  require_valid(spaces, options);
  if (options.keep != 0 && !is_convex(options.method)) {
    throw Error(Code::bad_argument,
                fmt::format("asked to keep the {} largest weights of each anchor, but {} makes signed weights that "
                            "cannot be dropped one by one; keep all, or use param, kmeans, fps or random",
                            options.keep, to_string(options.method)));
  }
  Bundle bundle;
  bundle.method = options.method;
  bundle.similarity = options.similarity;
  bundle.whitening = options.whitening;
  bundle.shrinkage_rule = options.shrinkage_rule;
  bundle.consensus = options.consensus;
  bundle.attach_by = options.attach_by.value_or(default_attach_by(options.method, options.similarity));
  bundle.seed = options.seed;
  bundle.keep = options.keep;
  bundle.rows = spaces.front().range();
  bundle.kedge_version = version();
  for (const Space& space : spaces) bundle.sources.push_back(space.name());
  prepare_support(bundle, spaces, options);
  return bundle;
}

/// Statistics of each space out of those of all together.
std::vector<Statistics> split_statistics(const Bundle& bundle, std::span<const Space> spaces, const Moments& joint,
                                         Device device) {
  std::vector<Statistics> statistics;
  std::size_t column = 0;
  for (const Space& space : spaces) {
    statistics.push_back(statistics_of(bundle, space, moments_of(joint, column, space.dim()), device));
    column += space.dim();
  }
  return statistics;
}

/// Nobody asked for those after them, on which the spaces do not agree.
Matrix first_anchors(const Matrix& targets, std::size_t count) {
  Matrix first(targets.rows(), count);
  as_eigen(first.view()) = as_eigen(targets.view().middle_cols(0, count));
  return first;
}

/// `statistics` may be empty: they come with what the spaces have in common.
Bundle fit_consensus(Bundle bundle, std::span<const Space> spaces, std::vector<Statistics>& statistics,
                     const FitOptions& options, const Progress& progress) {
  Moments joint = compute_joint_moments(spaces, progress, options.device);
  if (statistics.empty()) statistics = split_statistics(bundle, spaces, joint, options.device);
  require_whitenable(spaces, statistics);
  select_support(bundle, spaces, statistics, options, progress);
  std::vector<Whitening> whitenings = whitenings_of(statistics);
  if (progress) progress({"finding the consensus", 0, 1, ""});
  const ConsensusTask task{spaces, whitenings, bundle.support_ids, anchor_count(options, spaces.front().rows())};
  Consensus consensus = find_consensus(task, std::move(joint), options.consensus, options.device);
  Matrix targets =
      options.anchors == 0 ? first_anchors(consensus.targets, consensus.agreed) : std::move(consensus.targets);
  if (options.consensus.refine_epochs > 0) {
    const auto backend = make_backend(options.device, options.precision);
    Refined refined = refine_targets(*backend, task, targets, options.consensus, options.seed, progress);
    targets = std::move(refined.targets);
    bundle.refine_losses = std::move(refined.losses);
  }
  set_targets(bundle, std::move(targets));
  if (bundle.similarity == Similarity::wip) {
    for (std::size_t i = 0; i < spaces.size(); ++i) statistics[i].whitening = std::move(whitenings[i]);
  } else {
    bundle.targets = {};  // they would be those of another similarity
  }
  attach_sources(bundle, spaces, statistics, bundle.attach_by, options);
  if (progress) progress({"finding the consensus", 1, 1, ""});
  return bundle;
}

Bundle fit_others(Bundle bundle, std::span<const Space> spaces, std::vector<Statistics>& statistics,
                  const FitOptions& options, const Progress& progress) {
  if (bundle.similarity == Similarity::wip || bundle.method == Method::param) require_whitenable(spaces, statistics);
  select_support(bundle, spaces, statistics, options, progress);
  if (is_adapter(options.method)) {
    fit_adapter(bundle, spaces, statistics, options);
    add_decoders(bundle, spaces, statistics);
    return bundle;
  }
  if (options.method == Method::param) {
    if (bundle.attach_by == AttachBy::ridge && bundle.similarity == Similarity::wip) {  // it will be needed twice
      for (Statistics& own : statistics) own.whitening = whitening_of(own);
    }
    learn_param(bundle, spaces, statistics, options, progress);
  } else {
    choose_mixture(bundle, spaces, statistics, options, progress);
  }
  keep_largest_weights(bundle);
  attach_by_mixture(bundle, spaces, statistics);
  if (bundle.attach_by == AttachBy::ridge) {
    attach_sources(bundle, spaces, statistics, AttachBy::ridge, options);
  } else if (bundle.targets.rows() != 0) {
    add_decoders(bundle, spaces, statistics);
  }
  return bundle;
}

}  // namespace

AttachBy default_attach_by(Method method, Similarity similarity) {
  if (is_adapter(method)) return AttachBy::ridge;
  return method == Method::consensus && similarity == Similarity::wip ? AttachBy::ridge : AttachBy::mixture;
}

void require_fit(std::span<const Space> spaces, const FitOptions& options) {
  (void)prepare(spaces, options);
}

Bundle fit(std::span<const Space> spaces, const FitOptions& options, const Progress& progress) {
  const Work work;
  Bundle bundle = prepare(spaces, options);
  require_own_options(options);
  std::vector<Statistics> statistics;
  if (options.method == Method::consensus) {
    bundle = fit_consensus(std::move(bundle), spaces, statistics, options, progress);
  } else {
    for (const Space& space : spaces) {
      Moments moments = compute_moments(space, progress, options.device);
      statistics.push_back(statistics_of(bundle, space, std::move(moments), options.device));
    }
    bundle = fit_others(std::move(bundle), spaces, statistics, options, progress);
  }
  judge_sources(bundle, spaces, statistics);
  return bundle;
}

Bundle fit(std::span<const Space> spaces, std::vector<Statistics> statistics, const FitOptions& options,
           const Progress& progress) {
  const Work work;
  Bundle bundle = prepare(spaces, options);
  if (options.method == Method::consensus) {
    return fit_consensus(std::move(bundle), spaces, statistics, options, progress);
  }
  return fit_others(std::move(bundle), spaces, statistics, options, progress);
}

}  // namespace kedge
