// SPDX-License-Identifier: Apache-2.0
#include "fit/fit.h"

#include "anchors/consensus.h"
#include "anchors/param/param.h"
#include "anchors/param/refine.h"
#include "base/parallel.h"
#include "compute/lapack.h"
#include "compute/threads.h"
#include "fit/attach.h"
#include "fit/judge.h"
#include "fit/robust.h"
#include "fit/translations.h"
#include "map/fold.h"

#include <kedge/anchors.h>
#include <kedge/version.h>

#include <algorithm>
#include <numeric>

namespace kedge {
namespace {

/// Widest first: what takes longest must not be left for last, when other threads have nothing to do.
std::vector<std::size_t> by_width(std::span<const Statistics> statistics) {
  std::vector<std::size_t> order(statistics.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return statistics[i].dim(); });
  return order;
}

/// make(i) of every source; on a thread each if much of the work is too small for BLAS's threads, or waits for a GPU.
template <class Make>
auto of_each_source(std::span<const Statistics> statistics, const Make& make) {
  const std::size_t sources = statistics.size();
  std::vector<std::optional<decltype(make(0))>> made(sources);
  if (statistics.front().device() == Device::cpu && sources < threads()) {
    for (std::size_t i = 0; i < sources; ++i) made[i].emplace(make(i));
  } else {
    parallel_blocks(sources, 1, threads(), [&, order = by_width(statistics)] {
      return [&](std::size_t i, std::size_t) { made[order[i]].emplace(make(order[i])); };
    });
  }
  std::vector<decltype(make(0))> result;
  for (auto& own : made) result.push_back(std::move(own).value());
  return result;
}

std::vector<Whitening> whitenings_of(std::span<const Statistics> statistics) {
  return of_each_source(statistics, [&](std::size_t i) { return statistics[i].whitening(); });
}

std::vector<RidgeRows> centre_sources(const FitInput& input, std::span<const Statistics> statistics) {
  return of_each_source(statistics, [&](std::size_t i) { return RidgeRows(input.support.rows[i], statistics[i]); });
}

std::vector<Attachment> attach_sources(const Attacher& attacher, const FitInput& input,
                                       std::span<const Statistics> statistics, const AttachSettings& settings,
                                       const Progress& progress) {
  const auto attach_one = [&](std::size_t i) {
    return attacher.attach(input.support.rows[i], statistics[i], settings, progress);
  };
  if (settings.by == AttachBy::ridge) return of_each_source(statistics, attach_one);
  std::vector<Attachment> attached;  // kernels share out their work themselves, and tell of their progress
  for (std::size_t i = 0; i < statistics.size(); ++i) attached.push_back(attach_one(i));
  return attached;
}

/// With so few threads, one has nothing to do for most of the time that the directions take to find.
constexpr unsigned kFewThreads = 2;

/// Finds the consensus of the sources. If threads would idle or wait for the GPU, `prepare` runs for each beside it.
template <class Prepare>
Matrix find_targets(const ConsensusTask& task, Moments joint, std::span<const Statistics> statistics,
                    const Recipe& made, const FitOptions& options, const Prepare& prepare) {
  const bool on_device = on_gpu(joint.dim(), options.device);
  const auto& consensus = std::get<Consensus>(options.method);
  Matrix targets;
  const auto find = [&] { targets = find_consensus(task, std::move(joint), consensus, options.device).targets; };
  if (made.attach_by != AttachBy::ridge || threads() < 2 || (!on_device && threads() > kFewThreads)) {
    find();
    return targets;
  }
  parallel_blocks(statistics.size() + 1, 1, threads(), [&, order = by_width(statistics)] {
    return [&](std::size_t turn, std::size_t) { turn == 0 ? find() : prepare(order[turn - 1]); };
  });
  return targets;
}

/// Each by the support rows that are right.
std::vector<Attachment> attach_right(const Recipe& made, LearnedAnchors& anchors, const FitInput& input,
                                     std::span<const Statistics> statistics, const RightRows& right,
                                     const AttachSettings& settings, const Progress& progress) {
  anchors.support_ids = input.support.ids;
  std::vector<Attachment> attached;
  for (std::size_t i = 0; i < statistics.size(); ++i) {
    const std::vector<std::size_t> places = positions_of(right[i]);
    const Matrix64 support = pick_rows(input.support.rows[i].view(), places);
    attached.push_back(attach_some(made, anchors, places, support, statistics[i], settings, progress));
  }
  return attached;
}

Learned fit_consensus(FitInput& input, std::span<const Statistics> statistics, const RightRows& right,
                      const Recipe& made, const FitOptions& options, const Progress& progress) {
  const std::vector<WhiteningBasis> bases =
      of_each_source(statistics, [&](std::size_t i) { return statistics[i].basis(); });
  std::vector<RidgeRows> rows = centre_sources(input, statistics);
  std::vector<const CentredRows*> centred;
  for (const RidgeRows& own : rows) centred.push_back(&own.centred());
  const bool by_ridge = made.attach_by == AttachBy::ridge;
  const auto prepare = [&](std::size_t i) {
    if (rows[i].candidates().empty()) {
      rows[i].prepare(made.similarity, statistics[i], !options.ridge, bases[i]);
    }
  };
  if (progress) progress({"finding the consensus", 0, 1, ""});
  const ConsensusTask task{bases, centred, anchor_count(options, input.support.ids.size()), right, input.support.rows};
  Matrix targets = find_targets(task, std::move(input.moments.front()), statistics, made, options, prepare);
  std::vector<double> losses;
  if (const Refinement* refinement = refinement_of(options)) {
    const auto backend = make_backend(options.device, options.precision);
    const std::vector<Whitening> whitenings = whitenings_of(statistics);
    Refined refined = refine_targets(*backend, {whitenings, input.support.rows}, input.spaces, input.file_rows, targets,
                                     *refinement, options.seed, progress);
    targets = std::move(refined.targets);
    losses = std::move(refined.losses);
  }
  Learned learned{anchors_of_targets(std::move(targets)), {}};
  learned.anchors.refine_losses = std::move(losses);
  if (made.similarity != Similarity::wip) learned.anchors.targets = {};  // they would be those of another similarity
  if (progress) progress({"finding the consensus", 1, 1, ""});
  const Attacher attacher(made, learned.anchors);
  const AttachSettings settings{made.attach_by, options.ridge, options.kernel};
  if (!right.empty()) {
    learned.spaces = attach_right(made, learned.anchors, input, statistics, right, settings, progress);
    return learned;
  }
  if (!by_ridge) {
    learned.spaces = attach_sources(attacher, input, statistics, settings, progress);
    return learned;
  }
  learned.spaces = of_each_source(statistics, [&](std::size_t i) {
    prepare(i);
    return attacher.attach_by_ridge(rows[i], statistics[i], settings);
  });
  return learned;
}

LearnedAnchors learn_param(const FitInput& input, std::span<const Statistics> statistics, const FitOptions& options,
                           const Progress& progress) {
  const auto backend = make_backend(options.device, options.precision);
  const ParamTask task{input.spaces, input.file_rows,   anchor_count(options, input.support.ids.size()),
                       options.seed, options.whitening, options.shrinkage_rule};
  ParamResult result =
      learn_mixture(*backend, task, whitenings_of(statistics), std::get<Param>(options.method), progress);
  LearnedAnchors learned;
  learned.mixture = std::move(result.mixture);
  learned.history = std::move(result.history);
  return learned;
}

/// The supports of all spaces side by side, support x (sum of dims), where plain distance agrees with the similarity.
Matrix support_coordinates(const SupportRows& support, std::span<const Statistics> statistics, Similarity similarity) {
  std::size_t width = 0;
  for (const Statistics& own : statistics) width += own.dim();
  Matrix joined(support.ids.size(), width);
  std::size_t column = 0;
  for (std::size_t i = 0; i < statistics.size(); ++i) {
    Matrix64 rows = support.rows[i];
    Coordinates(similarity, statistics[i]).apply(rows.view());
    as_eigen(joined.view().middle_cols(column, rows.cols())) = as_eigen(rows.view()).cast<float>();
    column += rows.cols();
  }
  return joined;
}

LearnedAnchors choose_mixture(const SupportRows& support, std::span<const Statistics> statistics,
                              const FitOptions& options, const Progress& progress) {
  if (progress) progress({"choosing anchors", 0, 1, ""});
  // Whitening a wide space takes minutes, and a random choice looks at no value.
  const Choice by = std::get<ChosenRows>(options.method).by;
  const Matrix coordinates = by == Choice::random ? Matrix(support.ids.size(), 0)
                                                  : support_coordinates(support, statistics, options.similarity);
  LearnedAnchors learned;
  learned.mixture = choose_anchors(by, coordinates.view(), anchor_count(options, support.ids.size()), options.seed);
  if (progress) progress({"choosing anchors", 1, 1, ""});
  return learned;
}

/// The support shrinks with the mixture, so that an encoder to be attached has fewer rows to embed.
Matrix keep_weights(Matrix mixture, std::optional<std::size_t> keep, FitInput& input) {
  if (!keep) return mixture;
  SparseMixture sparse = keep_largest(std::move(mixture), *keep);
  keep_support(input, sparse.columns);
  return std::move(sparse.mixture);
}

/// The sources' maps for wip by mixture, and the mean of their RR at the support. The mixture was found without
/// targets, so that mean becomes what ridge regresses.
struct MixedSources {
  std::vector<RidgeRows> rows;
  std::vector<RelativeMap> maps;
  Matrix targets;
};

MixedSources mix_sources(const Matrix& mixture, const FitInput& input, std::span<const Statistics> statistics) {
  MixedSources mixed{centre_sources(input, statistics), {}, {}};
  const Matrix64 weights = matrix_of<double>(as_eigen(mixture.view()).transpose());
  std::vector<Matrix64> rr(statistics.size());
  mixed.maps = of_each_source(statistics, [&](std::size_t i) {
    RelativeMap map = mixed.rows[i].mix(weights.view(), statistics[i], rr[i]);
    require_finite(statistics[i].space(), matrix_of<float>(as_eigen(rr[i].view())), {});
    return map;
  });
  for (std::size_t i = 1; i < rr.size(); ++i) as_eigen(rr.front().view()) += as_eigen(rr[i].view());
  mixed.targets = matrix_of<float>(as_eigen(rr.front().view()) / static_cast<double>(rr.size()));
  return mixed;
}

std::vector<Attachment> keep_mixed(const MixedSources& mixed, std::span<const Statistics> statistics) {
  const RidgeTargets targets(mixed.targets);
  return of_each_source(statistics, [&](std::size_t i) {
    Attachment attached{std::make_shared<RelativeMap>(mixed.maps[i]), ByMixture{}, statistics[i].options().shrinkage};
    attached.decoder = std::make_shared<Decoder>(RidgeSupport(targets, mixed.rows[i]).decoder(statistics[i].space()));
    return attached;
  });
}

Learned fit_mixture(FitInput& input, std::span<const Statistics> statistics, const Recipe& made,
                    const FitOptions& options, const Progress& progress) {
  Learned learned{std::holds_alternative<Param>(made.method)
                      ? learn_param(input, statistics, options, progress)
                      : choose_mixture(input.support, statistics, options, progress),
                  {}};
  learned.anchors.mixture = keep_weights(std::move(learned.anchors.mixture), keep_of(made.method), input);
  if (made.similarity == Similarity::wip) {
    MixedSources mixed = mix_sources(learned.anchors.mixture, input, statistics);
    if (!regresses(made.attach_by)) learned.spaces = keep_mixed(mixed, statistics);
    learned.anchors.targets = std::move(mixed.targets);
  }
  if (!learned.spaces.empty()) return learned;
  learned.spaces = attach_sources(Attacher(made, learned.anchors), input, statistics,
                                  {made.attach_by, options.ridge, options.kernel}, progress);
  return learned;
}

/// Adds the decoders that the adapter itself does not make.
Learned fit_pair(const FitInput& input, std::span<const Statistics> statistics, const Recipe& made,
                 const FitOptions& options, const Progress& progress) {
  Learned learned = fit_adapter(statistics, input.support.rows, made, options, progress);
  const RidgeTargets targets(learned.anchors.targets);
  const auto decoders = of_each_source(statistics, [&](std::size_t i) {
    if (learned.spaces[i].decoder) return learned.spaces[i].decoder;
    const RidgeRows rows(input.support.rows[i], statistics[i]);
    return std::shared_ptr<const Decoder>(
        std::make_shared<Decoder>(RidgeSupport(targets, rows).decoder(statistics[i].space())));
  });
  for (std::size_t i = 0; i < decoders.size(); ++i) learned.spaces[i].decoder = decoders[i];
  return learned;
}

/// Finds anchors and makes the maps of all sources. The support in `input` ends as that of the anchors.
Learned learn(FitInput& input, std::vector<Statistics>& statistics, const Recipe& made, const FitOptions& options,
              const Progress& progress) {
  const bool wip = made.similarity == Similarity::wip, param = std::holds_alternative<Param>(made.method);
  const bool consensus = std::holds_alternative<Consensus>(made.method);
  if (wip || param || consensus) std::ranges::for_each(statistics, require_whitenable);
  if (refinement_of(options) != nullptr || (param && wip && regresses(made.attach_by))) {  // both whiten more than once
    statistics = of_each_source(statistics, [&](std::size_t i) { return statistics[i].whitened(); });
  }
  std::vector<std::optional<WrongPairs>> wrong(statistics.size());
  RightRows right;
  if (options.robust) right = leave_out_wrong(input, statistics, wrong);
  Learned learned = is_adapter(made.method) ? fit_pair(input, statistics, made, options, progress)
                    : consensus             ? fit_consensus(input, statistics, right, made, options, progress)
                                            : fit_mixture(input, statistics, made, options, progress);
  for (std::size_t i = 0; i < wrong.size(); ++i) learned.spaces[i].wrong_pairs = std::move(wrong[i]);
  for (std::size_t i = 0; i < wrong.size() && options.keep_rows; ++i) {
    learned.spaces[i].kept =
        keep_rows(input.support.rows[i], right.empty() ? std::vector<std::size_t>() : positions_of(right[i]));
  }
  learned.anchors.support_ids = input.support.ids;
  learned.anchors.by_id = input.by_id;
  learned.right = std::move(right);
  return learned;
}

Recipe recipe_of(const FitInput& input, std::span<const Statistics> statistics, const FitOptions& options) {
  Recipe made;
  made.method = options.method;
  if (auto* param = std::get_if<Param>(&made.method)) param->checkpoint = {};
  made.similarity = options.similarity;
  made.whitening = options.whitening;
  made.shrinkage_rule = options.shrinkage_rule;
  made.attach_by = attach_by(options);
  made.seed = options.seed;
  made.support_select = options.support_select;
  made.rows = rows_of(input);
  made.kedge_version = version();
  for (const Statistics& own : statistics) made.sources.push_back(own.space());
  return made;
}

}  // namespace

Bundle fit(FitInput input, const FitOptions& asked, const Progress& progress) {
  const Work work;
  const FitOptions options = settle(input, asked);
  require_input(input, options);
  std::vector<Statistics> statistics = statistics_of(input.moments, options);
  Recipe made = recipe_of(input, statistics, options);
  Learned learned = learn(input, statistics, made, options, progress);
  if (keep_of(made.method) && !input.spaces.empty()) made.rows = rows_of(input);  // some of the support has gone
  judge_sources(learned, made, input, statistics);
  if (!options.keep_rows && !is_adapter(made.method)) expect_translations(learned, input.support.rows);
  Bundle bundle(std::move(made), std::move(learned.anchors), std::move(learned.spaces));
  return options.keep_rows ? expect_regressions(std::move(bundle), progress) : bundle;
}

Bundle fit(std::span<const Space> spaces, const FitOptions& options, const Progress& progress) {
  const Work work;
  return fit(read_input(FitRows{{spaces.begin(), spaces.end()}}, options, progress), options, progress);
}

Bundle fit(std::span<const Space> spaces, std::vector<Statistics> statistics, const FitOptions& asked,
           const Progress& progress) {
  const Work work;
  const FitOptions options = with_effort(asked, spaces.size(), has_others(asked, spaces.front().rows()));
  FitInput input = read_input(spaces, statistics, options, progress);
  Recipe made = recipe_of(input, statistics, options);
  Learned learned = learn(input, statistics, made, options, progress);
  return {std::move(made), std::move(learned.anchors), std::move(learned.spaces)};
}

AttachBy default_attach_by(const Method& method, Similarity similarity) {
  if (is_adapter(method, Pairwise::kernel)) return AttachBy::kernel;
  if (is_adapter(method)) return AttachBy::ridge;
  return std::holds_alternative<Consensus>(method) && similarity == Similarity::wip ? AttachBy::ridge
                                                                                    : AttachBy::mixture;
}

}  // namespace kedge
