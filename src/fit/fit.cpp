// SPDX-License-Identifier: Apache-2.0
#include "fit/fit.h"

#include "anchors/consensus.h"
#include "anchors/param/param.h"
#include "anchors/param/refine.h"
#include "base/eigen.h"
#include "base/parallel.h"
#include "compute/lapack.h"
#include "fit/adapter.h"
#include "fit/attach.h"
#include "fit/fit_options.h"
#include "map/coordinates.h"
#include "map/fold.h"

#include <fmt/format.h>
#include <kedge/device.h>
#include <kedge/error.h>
#include <kedge/version.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

namespace kedge {
namespace {

void require_whitenable(std::span<const Statistics> statistics) {
  for (const Statistics& own : statistics) kedge::require_whitenable(own);
}

/// Widest first: what takes longest must not be left for last, when other threads have nothing to do.
std::vector<std::size_t> by_width(std::span<const Statistics> statistics) {
  std::vector<std::size_t> order(statistics.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return statistics[i].dim(); });
  return order;
}

/// On a thread each where much of the work is too small for BLAS to share out, or waits for the GPU.
template <class Step>
void for_each_source(std::span<const Statistics> statistics, Device device, const Step& step) {
  const std::size_t sources = statistics.size();
  if (device == Device::cpu && sources < threads()) {
    for (std::size_t i = 0; i < sources; ++i) step(i);
    return;
  }
  parallel_blocks(sources, 1, threads(),
                  [&, order = by_width(statistics)] { return [&](std::size_t i, std::size_t) { step(order[i]); }; });
}

/// Found where they are not known yet.
void whiten_each(std::span<Statistics> statistics) {
  for_each_source(statistics, statistics.front().device,
                  [&](std::size_t i) { statistics[i].whitening = whitening_of(statistics[i]); });
}

std::vector<Whitening> whitenings_of(std::span<const Statistics> statistics) {
  std::vector<std::optional<Whitening>> found(statistics.size());
  for_each_source(statistics, statistics.front().device,
                  [&](std::size_t i) { found[i] = whitening_of(statistics[i]); });
  std::vector<Whitening> result;
  for (std::optional<Whitening>& own : found) result.push_back(std::move(own).value());
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

void attach_by_mixture(Bundle& bundle, const FitInput& input) {
  const Attacher attacher(bundle);
  for (std::size_t i = 0; i < input.statistics.size(); ++i) {
    bundle.add(attacher.attach(input.support.rows[i], input.statistics[i], {AttachBy::mixture}));
  }
}

std::vector<RidgeRows> centre_sources(const FitInput& input) {
  std::vector<std::optional<RidgeRows>> made(input.statistics.size());
  for_each_source(input.statistics, input.statistics.front().device,
                  [&](std::size_t i) { made[i].emplace(input.support.rows[i], input.statistics[i]); });
  std::vector<RidgeRows> rows;
  for (std::optional<RidgeRows>& own : made) rows.push_back(std::move(own).value());
  return rows;
}

/// Attaches the sources by mixture for wip, where the mean of the sources' RR at the support becomes what ridge
/// regresses, as the mixture was found without targets; and their way back, unless they will get a better one.
void attach_and_target(Bundle& bundle, const FitInput& input, bool decodes) {
  const std::vector<RidgeRows> rows = centre_sources(input);
  const std::size_t sources = rows.size();
  Matrix64 weights(bundle.support_ids.size(), bundle.mixture.rows());
  as_eigen(weights.view()) = as_eigen(bundle.mixture.view()).transpose().cast<double>();
  std::vector<std::optional<RelativeMap>> maps(sources);
  std::vector<Matrix64> rr(sources);
  for_each_source(input.statistics, input.statistics.front().device, [&](std::size_t i) {
    maps[i] = rows[i].mix(weights.view(), input.statistics[i], rr[i]);
    Matrix narrow(rr[i].rows(), rr[i].cols());
    as_eigen(narrow.view()) = as_eigen(rr[i].view()).cast<float>();
    require_finite(input.statistics[i].space(), narrow, {});
  });
  Matrix targets(weights.rows(), weights.cols());
  for (std::size_t i = 1; i < sources; ++i) as_eigen(rr.front().view()) += as_eigen(rr[i].view());
  as_eigen(targets.view()) = (as_eigen(rr.front().view()) / static_cast<double>(sources)).cast<float>();
  for (std::size_t i = 0; i < sources; ++i) {
    Attachment attached{std::make_shared<RelativeMap>(std::move(maps[i]).value()), AttachBy::mixture, 0};
    attached.shrinkage = input.statistics[i].options.shrinkage;
    bundle.add(std::move(attached));
  }
  bundle.targets = std::move(targets);
  if (!decodes) return;
  const RidgeTargets regressed(bundle.targets);
  for_each_source(input.statistics, input.statistics.front().device, [&](std::size_t i) {
    const RidgeSupport support(regressed, rows[i]);
    bundle.spaces[i].decoder = std::make_shared<Decoder>(support.decoder(input.statistics[i].space()));
  });
}

AttachSettings settings_of(const Bundle& bundle, const FitOptions& options) {
  return {bundle.attach_by, options.ridge, options.kernel};
}

void attach_sources(Bundle& bundle, const FitInput& input, const FitOptions& options, const Progress& progress) {
  const Attacher attacher(bundle);
  const AttachSettings settings = settings_of(bundle, options);
  std::vector<std::optional<Attachment>> attached(input.statistics.size());
  const auto attach_one = [&](std::size_t i) {
    attached[i] = attacher.attach(input.support.rows[i], input.statistics[i], settings, progress);
  };
  if (settings.by == AttachBy::ridge) {
    for_each_source(input.statistics, options.device, attach_one);
  } else {  // kernels share out their work themselves, and tell of their progress
    for (std::size_t i = 0; i < attached.size(); ++i) attach_one(i);
  }
  for (std::optional<Attachment>& one : attached) bundle.add(std::move(one).value());
}

/// `rows` are prepared here where they are not yet.
void attach_by_ridge(Bundle& bundle, std::vector<RidgeRows>& rows, const FitInput& input, const FitOptions& options) {
  const Attacher attacher(bundle);
  std::vector<std::optional<Attachment>> attached(rows.size());
  for_each_source(input.statistics, options.device, [&](std::size_t i) {
    const Statistics& own = input.statistics[i];
    if (rows[i].candidates().empty()) rows[i].prepare(bundle.similarity, own, !options.ridge);
    attached[i] = attacher.attach_by_ridge(rows[i], own, settings_of(bundle, options));
  });
  for (std::optional<Attachment>& one : attached) bundle.add(std::move(one).value());
}

/// For spaces that were attached before the targets were known, but for those that have a better one.
void add_decoders(Bundle& bundle, const FitInput& input) {
  const RidgeTargets targets(bundle.targets);
  for_each_source(input.statistics, input.statistics.front().device, [&](std::size_t i) {
    if (bundle.spaces[i].decoder) return;
    const Statistics& own = input.statistics[i];
    const RidgeRows rows(input.support.rows[i], own);
    bundle.spaces[i].decoder = std::make_shared<Decoder>(RidgeSupport(targets, rows).decoder(own.space()));
  });
}

/// With so few threads, one has nothing to do for most of the time that the directions take to find.
constexpr unsigned kFewThreads = 2;

/// Finds the targets, and where that leaves threads idle or waiting for the GPU, prepares the rows to regress them.
Consensus find_beside(const ConsensusTask& task, std::vector<RidgeRows>& rows, const Bundle& bundle, FitInput& input,
                      const FitOptions& options) {
  const bool finds_on_gpu = on_gpu(input.joint.value().dim(), options.device);
  const auto find = [&] {
    return find_consensus(task, std::move(*std::exchange(input.joint, {})), options.consensus, options.device);
  };
  if (bundle.attach_by != AttachBy::ridge || threads() < 2 || (!finds_on_gpu && threads() > kFewThreads)) return find();
  std::optional<Consensus> found;
  parallel_blocks(rows.size() + 1, 1, threads(), [&, order = by_width(input.statistics)] {
    return [&](std::size_t task_number, std::size_t) {
      if (task_number == 0) {
        found = find();
        return;
      }
      const std::size_t i = order[task_number - 1];
      rows[i].prepare(bundle.similarity, input.statistics[i], !options.ridge);
    };
  });
  return std::move(found).value();
}

void fit_consensus(Bundle& bundle, FitInput& input, const FitOptions& options, const Progress& progress) {
  require_whitenable(input.statistics);
  const bool refines = options.consensus.refine_epochs > 0;
  if (refines) whiten_each(input.statistics);
  for_each_source(input.statistics, options.device,
                  [&](std::size_t i) { input.statistics[i].basis = basis_of(input.statistics[i]); });
  std::vector<RidgeRows> rows = centre_sources(input);
  std::vector<WhiteningBasis> bases;
  std::vector<const CentredRows*> centred;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    bases.push_back(*input.statistics[i].basis);
    centred.push_back(&rows[i].centred());
  }
  if (progress) progress({"finding the consensus", 0, 1, ""});
  const ConsensusTask task{bases, centred, anchors_of(bundle, options)};
  Matrix targets = find_beside(task, rows, bundle, input, options).targets;
  if (refines) {
    const auto backend = make_backend(options.device, options.precision);
    const std::vector<Whitening> whitenings = whitenings_of(input.statistics);
    Refined refined = refine_targets(*backend, {whitenings, input.support.rows}, input.rows, bundle.support_ids,
                                     targets, options.consensus, options.seed, progress);
    targets = std::move(refined.targets);
    bundle.refine_losses = std::move(refined.losses);
  }
  set_targets(bundle, std::move(targets));
  if (bundle.similarity != Similarity::wip) bundle.targets = {};  // they would be those of another similarity
  if (progress) progress({"finding the consensus", 1, 1, ""});
  if (bundle.attach_by == AttachBy::ridge) {
    attach_by_ridge(bundle, rows, input, options);
  } else {
    attach_sources(bundle, input, options, progress);
  }
}

void fit_others(Bundle& bundle, FitInput& input, const FitOptions& options, const Progress& progress) {
  if (bundle.similarity == Similarity::wip || bundle.method == Method::param) require_whitenable(input.statistics);
  if (is_adapter(options.method)) {
    fit_adapter(bundle, input.statistics, input.support.rows, options, progress);
    add_decoders(bundle, input);
    return;
  }
  if (options.method == Method::param) {
    // It will be needed twice.
    if (regresses(bundle.attach_by) && bundle.similarity == Similarity::wip) whiten_each(input.statistics);
    learn_param(bundle, input, options, progress);
  } else {
    choose_mixture(bundle, input, options, progress);
  }
  keep_largest_weights(bundle, input.support);
  const bool again = regresses(bundle.attach_by);
  if (bundle.similarity == Similarity::wip) {
    attach_and_target(bundle, input, !again);
  } else {
    attach_by_mixture(bundle, input);
  }
  if (again) attach_sources(bundle, input, options, progress);
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
