// SPDX-License-Identifier: Apache-2.0
#include "map/fit.h"

#include "backend/threads.h"
#include "base/eigen.h"
#include "base/parallel.h"
#include "map/adapter.h"
#include "map/attach.h"
#include "map/coordinates.h"
#include "map/fit_options.h"
#include "map/fold.h"
#include "param/param.h"
#include "param/refine.h"
#include "solve/consensus.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/version.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

namespace kedge {
namespace {

void require_whitenable(std::span<const Statistics> statistics) {
  for (const Statistics& own : statistics) kedge::require_whitenable(own);
}

std::vector<Whitening> whitenings_of(std::span<const Statistics> statistics) {
  std::vector<Whitening> result;
  for (const Statistics& own : statistics) {
    result.push_back(whitening_of(own));
  }
  return result;
}

std::size_t anchors_of(const Bundle& bundle, const FitOptions& options) {
  return anchor_count(options, bundle.support_ids.size());
}

void learn_param(Bundle& bundle, const FitInput& input, const FitOptions& options, const Progress& progress) {
  const auto backend = make_backend(options.device, options.precision);
  const ParamTask task{input.rows,   bundle.support_ids, anchors_of(bundle, options),
                       options.seed, options.whitening,  options.shrinkage_rule};
  ParamResult learned =
      learn_mixture(*backend, task, whitenings_of(input.statistics), options.param, options.checkpoint, progress);
  bundle.mixture = std::move(learned.mixture);
  bundle.history = std::move(learned.history);
  bundle.param = options.param;
}

/// The supports of all spaces side by side, support x (sum of dims), where plain distance agrees with the similarity.
Matrix support_coordinates(const Bundle& bundle, const FitInput& input) {
  std::size_t width = 0;
  for (const Statistics& own : input.statistics) width += own.dim();
  Matrix joined(bundle.support_ids.size(), width);
  std::size_t column = 0;
  for (std::size_t i = 0; i < input.statistics.size(); ++i) {
    Matrix64 support = input.support.rows[i];
    Coordinates(bundle.similarity, input.statistics[i]).apply(support.view());
    as_eigen(joined.view().middle_cols(column, support.cols())) = as_eigen(support.view()).cast<float>();
    column += support.cols();
  }
  return joined;
}

void choose_mixture(Bundle& bundle, const FitInput& input, const FitOptions& options, const Progress& progress) {
  if (progress) progress({"choosing anchors", 0, 1, ""});
  const std::size_t anchors = anchors_of(bundle, options);
  if (options.method == Method::random) {  // whitening a wide space takes minutes, and nobody looks
    const MatrixView<const float> unread{nullptr, bundle.support_ids.size(), 0, 0};
    bundle.mixture = choose_anchors(options.method, unread, anchors, options.seed);
  } else {
    const Matrix coordinates = support_coordinates(bundle, input);
    bundle.mixture = choose_anchors(options.method, coordinates.view(), anchors, options.seed);
  }
  if (progress) progress({"choosing anchors", 1, 1, ""});
}

/// The support shrinks with the mixture, so that an encoder to be attached has fewer rows to embed.
void keep_largest_weights(Bundle& bundle, SupportRows& support) {
  if (bundle.keep == 0) return;
  SparseMixture sparse = keep_largest(std::move(bundle.mixture), bundle.keep);
  SupportRows kept;
  for (const std::size_t column : sparse.columns) kept.ids.push_back(support.ids[column]);
  for (const Matrix64& rows : support.rows) {
    Matrix64& own = kept.rows.emplace_back(sparse.columns.size(), rows.cols());
    for (std::size_t i = 0; i < sparse.columns.size(); ++i) {
      as_eigen(own.row(i)) = as_eigen(rows.row(sparse.columns[i]));
    }
  }
  support = std::move(kept);
  bundle.mixture = std::move(sparse.mixture);
  bundle.support_ids = support.ids;
}

/// Attaches the sources by mixture. For wip the mean of their RR at the support becomes what ridge regresses, as the
/// mixture was found without targets.
void attach_by_mixture(Bundle& bundle, const FitInput& input) {
  const Attacher attacher(bundle);
  const bool regressible = bundle.similarity == Similarity::wip;
  Matrix mean_rr(regressible ? bundle.support_ids.size() : 0, bundle.mixture.rows());
  auto sum = as_eigen(mean_rr.view());
  for (std::size_t i = 0; i < input.statistics.size(); ++i) {
    const Matrix64& support = input.support.rows[i];
    Attachment attached = attacher.attach(support, input.statistics[i], {AttachBy::mixture});
    if (regressible) {
      Matrix rows(support.rows(), support.cols());
      as_eigen(rows.view()) = as_eigen(support.view()).cast<float>();
      const Matrix rr = attached.map->apply(rows.view());
      require_finite(attached.space(), rr, {});
      sum += as_eigen(rr.view());
    }
    bundle.add(std::move(attached));
  }
  if (!regressible) return;
  sum /= static_cast<float>(input.statistics.size());
  bundle.targets = std::move(mean_rr);
}

/// Widest first: what takes longest must not be left for last, when other threads have nothing to do.
std::vector<std::size_t> by_width(std::span<const Statistics> statistics) {
  std::vector<std::size_t> order(statistics.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return statistics[i].dim(); });
  return order;
}

void attach_sources(Bundle& bundle, const FitInput& input, const FitOptions& options, const Progress& progress) {
  const Attacher attacher(bundle);
  const AttachSettings settings{bundle.attach_by, options.ridge, options.kernel};
  const std::size_t sources = input.statistics.size();
  std::vector<std::optional<Attachment>> attached(sources);
  const auto attach_one = [&](std::size_t i) {
    attached[i] = attacher.attach(input.support.rows[i], input.statistics[i], settings, progress);
  };
  // Much of a ridge is too small for BLAS to share out. Kernels are not, and tell of their progress.
  if (settings.by == AttachBy::ridge && options.device == Device::cpu && sources >= threads()) {
    parallel_blocks(sources, 1, threads(), [&, order = by_width(input.statistics)] {
      return [&, alone = std::make_unique<OneThread>()](std::size_t i, std::size_t) { attach_one(order[i]); };
    });
  } else {
    for (std::size_t i = 0; i < sources; ++i) attach_one(i);
  }
  for (std::optional<Attachment>& one : attached) bundle.add(std::move(one).value());
}

/// For spaces that were attached before the targets were known, but for those that have a better one.
void add_decoders(Bundle& bundle, const FitInput& input) {
  const RidgeTargets targets(bundle.targets);
  for (std::size_t i = 0; i < input.statistics.size(); ++i) {
    if (bundle.spaces[i].decoder) continue;
    const Statistics& own = input.statistics[i];
    const RidgeSupport rows(targets, input.support.rows[i], own.moments.mean());
    bundle.spaces[i].decoder = std::make_shared<Decoder>(rows.decoder(own.space()));
  }
}

/// Nobody asked for those after them, on which the spaces do not agree.
Matrix first_anchors(const Matrix& targets, std::size_t count) {
  Matrix first(targets.rows(), count);
  as_eigen(first.view()) = as_eigen(targets.view().middle_cols(0, count));
  return first;
}

void fit_consensus(Bundle& bundle, FitInput& input, const FitOptions& options, const Progress& progress) {
  require_whitenable(input.statistics);
  const bool refines = options.consensus.refine_epochs > 0;
  if (refines) {
    for (Statistics& own : input.statistics) own.whitening = whitening_of(own);
  }
  std::vector<WhiteningBasis> bases;
  for (Statistics& own : input.statistics) bases.push_back(*(own.basis = basis_of(own)));
  if (progress) progress({"finding the consensus", 0, 1, ""});
  const std::vector<Whitening> whitenings = refines ? whitenings_of(input.statistics) : std::vector<Whitening>();
  const ConsensusTask task{whitenings, input.support.rows, anchors_of(bundle, options), bases};
  Consensus consensus =
      find_consensus(task, std::move(*std::exchange(input.joint, {})), options.consensus, options.device);
  Matrix targets =
      options.anchors == 0 ? first_anchors(consensus.targets, consensus.agreed) : std::move(consensus.targets);
  if (refines) {
    const auto backend = make_backend(options.device, options.precision);
    Refined refined = refine_targets(*backend, task, input.rows, bundle.support_ids, targets, options.consensus,
                                     options.seed, progress);
    targets = std::move(refined.targets);
    bundle.refine_losses = std::move(refined.losses);
  }
  set_targets(bundle, std::move(targets));
  if (bundle.similarity != Similarity::wip) bundle.targets = {};  // they would be those of another similarity
  if (progress) progress({"finding the consensus", 1, 1, ""});
  attach_sources(bundle, input, options, progress);
}

void fit_others(Bundle& bundle, FitInput& input, const FitOptions& options, const Progress& progress) {
  if (bundle.similarity == Similarity::wip || bundle.method == Method::param) require_whitenable(input.statistics);
  if (is_adapter(options.method)) {
    fit_adapter(bundle, input.statistics, input.support.rows, options, progress);
    add_decoders(bundle, input);
    return;
  }
  if (options.method == Method::param) {
    if (regresses(bundle.attach_by) && bundle.similarity == Similarity::wip) {  // it will be needed twice
      for (Statistics& own : input.statistics) own.whitening = whitening_of(own);
    }
    learn_param(bundle, input, options, progress);
  } else {
    choose_mixture(bundle, input, options, progress);
  }
  keep_largest_weights(bundle, input.support);
  attach_by_mixture(bundle, input);
  if (regresses(bundle.attach_by)) {
    attach_sources(bundle, input, options, progress);
  } else if (bundle.targets.rows() != 0) {
    add_decoders(bundle, input);
  }
}

}  // namespace

AttachBy default_attach_by(Method method, Similarity similarity) {
  if (method == Method::kernel) return AttachBy::kernel;
  if (is_adapter(method)) return AttachBy::ridge;
  return method == Method::consensus && similarity == Similarity::wip ? AttachBy::ridge : AttachBy::mixture;
}

Bundle begin_bundle(std::span<const std::string> sources, RowRange rows, const FitOptions& options) {
  require_valid(sources.size(), options);
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
  bundle.attach_by = attach_by(options);
  bundle.seed = options.seed;
  bundle.keep = options.keep;
  bundle.rows = rows;
  bundle.kedge_version = version();
  bundle.sources.assign(sources.begin(), sources.end());
  return bundle;
}

void complete_bundle(Bundle& bundle, FitInput& input, const FitOptions& options, const Progress& progress) {
  bundle.support_ids = input.support.ids;
  if (options.method == Method::consensus) {
    fit_consensus(bundle, input, options, progress);
  } else {
    fit_others(bundle, input, options, progress);
  }
}

}  // namespace kedge
