// SPDX-License-Identifier: Apache-2.0
#include "fit/attach.h"

#include "base/wording.h"
#include "compute/products.h"
#include "compute/threads.h"
#include "fit/fit.h"
#include "fit/judge.h"
#include "fit/robust.h"
#include "fit/translations.h"
#include "space/sum_rows.h"

#include <algorithm>
#include <cmath>
#include <memory>

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
void mix_convex(const Matrix& mixture, const Matrix64& support, Matrix64& anchors) {
  EigenRows<double> weights = as_eigen(mixture.view()).cast<double>();
  for (Eigen::Index r = 0; r < weights.rows(); ++r) weights.row(r) /= weights.row(r).sum();  // 1 but for rounding
  set_product(anchors.view(), weights, support.view());
}

/// Whether moments are those of the support rows alone, and so know the mean of nothing else.
bool are_of(const Moments& moments, const Matrix64& support) {
  if (moments.rows() != support.rows()) return false;
  const Eigen::RowVectorXd mean = column_means(support.view());
  const auto known = as_eigen(moments.mean());
  constexpr double kRounding = 1e-9;
  return (mean - known).norm() <= kRounding * (known.norm() + std::sqrt(moments.total_variance()));
}

void require_input(const LearnedAnchors& anchors, const AttachInput& input) {
  const Moments& moments = input.moments;
  if (moments.parts().size() != 1) {
    refuse("one space is attached at a time, but the moments are of {}; choose one of them, as in moments.of(name)",
           moments.parts().size());
  }
  const auto& [space, dim] = moments.parts().front();
  const Matrix64& support = input.support;
  if (support.rows() != anchors.support_ids.size() || support.cols() != dim) {
    refuse(
        "space '{}': the bundle has {} support rows and the moments are of {} values, but the support rows given are "
        "{} x {}",
        space, anchors.support_ids.size(), dim, support.rows(), support.cols());
  }
  require_finite_rows(space, support);
  require_variation(moments, std::vector<std::string>(1, "its rows"));
  if (!input.of_support && moments.rows() < support.rows()) {  // known moments should be of all rows
    refuse(
        "space '{}': its moments are of {} rows, but the bundle has {} support rows, which are some of them; is a part "
        "of the moments missing?",
        space, moments.rows(), support.rows());
  }
}

/// Which rows of the file are the support, in support order, after checking that the space can have them.
std::vector<std::int64_t> support_of(const Bundle& bundle, const Space& space, bool support_rows) {
  if (!support_rows && bundle.anchors().by_id) {
    refuse(
        "space '{}': the bundle's support was drawn by id, so that row numbers do not find it; give the ids of these "
        "rows with {}, or the support rows alone",
        space.name(), option_words("ids"));
  }
  if (!support_rows) return bundle.anchors().support_ids;
  const std::size_t needed = bundle.anchors().support_ids.size();
  if (space.rows() != needed) {
    refuse_file(
        "space '{}': the bundle was made from {} support rows, but {} has {}; give only those rows, in support order",
        space.name(), needed, space.source().label(), space.rows());
  }
  std::vector<std::int64_t> in_order(needed);
  for (std::size_t i = 0; i < needed; ++i) in_order[i] = space.file_row(i);
  return in_order;
}

/// A ridge makes do with some of the support rows; nothing else does.
void require_some(const Bundle& bundle, std::size_t some, AttachBy by) {
  const LearnedAnchors& anchors = bundle.anchors();
  if (some >= RowCheck::kLeastRows && by == AttachBy::ridge && anchors.has_targets()) return;
  refuse(
      "the pairs name {} of the bundle's {} support rows, but all are needed, or {} with {} if the bundle has targets; "
      "does each pair begin with a row number of the first file that was fitted?",
      some, anchors.support_ids.size(), RowCheck::kLeastRows, option_words("attach", to_string(AttachBy::ridge)));
}

/// Leaves out the support rows that no pair names.
void leave_out_missing(AttachInput& input, const Bundle& bundle, AttachBy by) {
  std::vector<std::int64_t> named;
  for (std::size_t i = 0; i < input.file_rows.size(); ++i) {
    if (!input.space.value().source().place_of(static_cast<std::size_t>(input.file_rows[i]))) continue;
    named.push_back(input.file_rows[i]);
    input.places.push_back(i);
  }
  if (named.size() < input.file_rows.size()) require_some(bundle, named.size(), by);
  if (named.size() == input.file_rows.size()) input.places.clear();
  input.file_rows = std::move(named);
}

/// All say where the support rows are.
void require_pairs_alone(const AttachRows& rows, const AttachOptions& options) {
  if (!rows.pairs || (!rows.ids && !options.support_rows)) return;
  refuse("{} say which rows of the space are which, so that {} cannot be given too; leave out one of them",
         option_words("pairs"), rows.ids ? option_words("ids") : flag_words("support-rows"));
}

/// Any id may be some row's number as well.
void require_by_id(const Bundle& bundle, const std::string& space) {
  if (bundle.anchors().by_id) return;
  refuse(
      "space '{}': the bundle keeps its support by row number, so that ids do not find it; give all rows in the "
      "order of the fit without {}, or fit with {} first",
      space, option_words("ids"), option_words("ids"));
}

/// From moments of the one space that carry its support rows.
AttachInput carried_input(const Bundle& bundle, const Moments& moments) {
  if (moments.parts().empty()) refuse("these moments are of no space; add rows first");
  const std::string& space = moments.parts().front().space;
  if (!moments.support().keeps_rows()) {
    refuse("the moments of '{}' carry no support rows; sum up its rows with {}, or give its support rows too", space,
           by_vocabulary("support ids", "--support-of BUNDLE", "support=bundle.support_ids"));
  }
  if (moments.parts().size() != 1) {
    refuse("one space is attached at a time, but the moments are of {}; sum up the rows of one alone",
           moments.parts().size());
  }
  require_by_id(bundle, space);
  const std::vector<std::size_t> places =
      places_of(bundle.anchors().support_ids, moments.support().ids(), fmt::format("space '{}'", space));
  const Matrix rows = moments.support_rows(space);
  return {moments, matrix_of<double>(as_eigen(rows.view())(places, Eigen::all))};
}

/// With an id for each row, all rows are read once: for moments that carry the support.
AttachInput read_by_id(const Bundle& bundle, const Space& space, std::span<const std::int64_t> ids,
                       const AttachOptions& options, const Progress& progress) {
  if (options.support_rows) {
    refuse("{} says that the rows are the support alone, in its order, so that {} are of no use; leave out one of them",
           flag_words("support-rows"), option_words("ids"));
  }
  require_by_id(bundle, space.name());
  Moments moments{SupportDraw(bundle.anchors().support_ids)};
  add_moments(moments, {&space, 1}, ids, options.device, progress);
  return carried_input(bundle, moments);
}

/// Without the support rows that the others speak against; `places` become those of the rest.
Attachment attach_right(const Recipe& made, const LearnedAnchors& anchors, const Matrix64& support,
                        const Statistics& statistics, const AttachSettings& settings, const Progress& progress,
                        std::vector<std::size_t>& places) {
  WrongPairs wrong;
  places = right_places(anchors, statistics.space(), support, wrong);
  Attachment attached =
      attach_some(made, anchors, places, pick_rows(support.view(), places), statistics, settings, progress);
  attached.wrong_pairs = std::move(wrong);
  return attached;
}

}  // namespace

Attachment attach_some(const Recipe& made, const LearnedAnchors& anchors, std::span<const std::size_t> places,
                       const Matrix64& support, const Statistics& statistics, const AttachSettings& settings,
                       const Progress& progress) {
  const std::size_t all = anchors.support_ids.size();
  if (places.size() == all) return Attacher(made, anchors).attach(support, statistics, settings, progress);
  const LearnedAnchors some = anchors_at(anchors, places);
  // Their mean is not that of the statistics, even if those are of the support.
  const Statistics own(statistics.moments(), statistics.options(), ShrinkageRule::fixed, statistics.device());
  Attachment attached = Attacher(made, some).attach(support, own, settings, progress);
  spread_kernel(attached, places, all);
  return attached;
}

AttachSettings settings_of(const Bundle& bundle, const AttachOptions& options) {
  const AttachBy by = attach_by(bundle, options);
  if (options.robust && (!regresses(by) || !bundle.anchors().has_targets())) {
    refuse("{} leaves rows out of a regression, but the space is attached by {}{}; leave it out{}",
           flag_words("robust"), to_string(by), regresses(by) ? " to a bundle without targets" : "",
           regresses(by) ? "" : ", or attach by ridge or kernel");
  }
  require_regression_options(by, options.ridge, options.kernel);
  return {by, options.ridge, options.kernel};
}

LearnedAnchors anchors_of_targets(Matrix targets) {
  LearnedAnchors anchors;
  anchors.mixture = matrix_of<float>(as_eigen(targets.view()).transpose() / static_cast<float>(targets.rows()));
  anchors.targets = std::move(targets);
  return anchors;
}

Attacher::Attacher(const Recipe& made, const LearnedAnchors& anchors) : made_(made), anchors_(anchors) {
  if (anchors.has_targets()) targets_.emplace(anchors.targets);
}

RelativeMap Attacher::mix(const Matrix64& support, const Statistics& statistics) const {
  Matrix64 anchors(anchors_.mixture.rows(), support.cols());
  if (is_convex(made_.method) && made_.similarity != Similarity::wip) {
    mix_convex(anchors_.mixture, support, anchors);
  } else {
    mix_around_mean(anchors_.mixture, support, statistics.mean(), anchors);
  }
  return make_relative_map(statistics.space(), made_.similarity, anchors, statistics.moments(), statistics.options());
}

void Attacher::require_way(const Statistics& statistics, AttachBy by) const {
  const std::string& space = statistics.space();
  if (by == AttachBy::mixture && is_adapter(made_.method)) {
    refuse("{} has no anchors to mix, so '{}' cannot be attached by mixture; attach it by ridge",
           to_string(made_.method), space);
  }
  if (by != AttachBy::mixture && !targets_) {
    refuse(
        "space '{}' cannot be attached by {}: a bundle with the similarity {} has no targets to regress; attach it by "
        "mixture, or fit with the similarity wip",
        space, to_string(by), to_string(made_.similarity));
  }
  if (made_.similarity == Similarity::wip) require_whitenable(statistics);
}

Attachment Attacher::regress(const RidgeSupport& rows, const Matrix64& support, const Statistics& statistics,
                             const AttachSettings& settings, const Progress& progress) const {
  std::optional<Attachment> line, curve;
  if (settings.by != AttachBy::kernel) {
    line = rows.map(made_.similarity, statistics, settings.ridge);
  }
  if (settings.by != AttachBy::ridge) {
    curve = attach_by_kernel(targets_.value(), support.view(), made_.similarity, statistics, settings.kernel, progress);
  }
  if (!line) return std::move(curve).value();
  if (!curve) return *std::move(line);
  auto& by_ridge = std::get<ByRidge>(line->by);
  auto& by_kernel = std::get<ByKernel>(curve->by);
  by_ridge.choice = by_kernel.choice = AttachChoice{by_ridge.fit.error, by_kernel.fit.error};
  return std::move(by_kernel.fit.error < by_ridge.fit.error ? curve : line).value();
}

Attachment Attacher::attach(const Matrix64& support, const Statistics& statistics, const AttachSettings& settings,
                            const Progress& progress) const {
  const std::string& space = statistics.space();
  const AttachBy by = settings.by;
  require_way(statistics, by);
  std::optional<Attachment> attached;
  if (by == AttachBy::mixture) {
    attached = Attachment{std::make_shared<RelativeMap>(mix(support, statistics)), ByMixture{},
                          statistics.options().shrinkage};
  }
  if (targets_) {
    RidgeRows rows(support, statistics);
    if (by == AttachBy::ridge || by == AttachBy::automatic) {
      rows.prepare(made_.similarity, statistics, !settings.ridge);
    }
    const RidgeSupport regressed(*targets_, rows);
    if (!attached) attached = regress(regressed, support, statistics, settings, progress);
    attached->decoder = std::make_shared<Decoder>(regressed.decoder(space));
  }
  return std::move(attached).value();
}

Attachment Attacher::attach_by_ridge(const RidgeRows& rows, const Statistics& statistics,
                                     const AttachSettings& settings) const {
  require_way(statistics, AttachBy::ridge);
  const RidgeSupport regressed(targets_.value(), rows);
  Attachment attached = regressed.map(made_.similarity, statistics, settings.ridge);
  attached.decoder = std::make_shared<Decoder>(regressed.decoder(statistics.space()));
  return attached;
}

AttachInput read_input(const Bundle& bundle, const AttachRows& rows, const AttachOptions& options,
                       const Progress& progress) {
  const Work work;
  require_device(options.device);
  if (!rows.space) {
    if (!rows.moments) refuse("there is nothing to attach: give a space, or moments that carry its support rows");
    return carried_input(bundle, *rows.moments);
  }
  require_pairs_alone(rows, options);
  const Space space = rows.pairs ? pair_rows(*rows.space, *rows.pairs) : *rows.space;
  if (rows.ids) return read_by_id(bundle, space, *rows.ids, options, progress);
  const AttachSettings settings = settings_of(bundle, options);
  AttachInput input;
  if (rows.moments) input.moments = moments_of({&space, 1}, *rows.moments);
  input.space = space;
  input.file_rows = support_of(bundle, space, options.support_rows);
  if (rows.pairs) leave_out_missing(input, bundle, settings.by);
  input.support = space.gather(input.file_rows);
  if (rows.moments) return input;
  input.moments = read_moments({&space, 1}, bundle.made().shrinkage_rule, options.device, progress);
  if (!rows.pairs) input.of_support = options.support_rows;
  return input;
}

Attachment attach(const Bundle& bundle, const AttachInput& input, const AttachOptions& options,
                  const Progress& progress) {
  const Work work;
  require_device(options.device);
  const AttachSettings settings = settings_of(bundle, options);
  LearnedAnchors some;
  if (!input.places.empty()) {
    require_some(bundle, input.places.size(), settings.by);
    some = anchors_at(bundle.anchors(), input.places);
  }
  const LearnedAnchors& anchors = input.places.empty() ? bundle.anchors() : some;
  require_input(anchors, input);
  const Statistics statistics(input.moments, bundle.made().whitening, bundle.made().shrinkage_rule, options.device,
                              input.of_support.value_or(are_of(input.moments, input.support)));
  std::vector<std::size_t> right;
  Attachment attached = options.robust
                            ? attach_right(bundle.made(), anchors, input.support, statistics, settings, progress, right)
                            : Attacher(bundle.made(), anchors).attach(input.support, statistics, settings, progress);
  if (std::ranges::any_of(bundle.spaces(), [](const Attachment& space) { return space.kept != nullptr; })) {
    attached.kept = keep_rows(input.support, right, input.places);
  }
  RowPool pool = input.space ? pool_of(*input.space, input.file_rows) : pool_of(input.support);
  pool.support_alone = !input.space || options.support_rows;
  judge_attached(attached, bundle, anchors, input.support, statistics, pool);
  return attached;
}

Attachment attach(const Bundle& bundle, const Space& space, const AttachOptions& options, const Progress& progress) {
  const Work work;
  return attach(bundle, read_input(bundle, {space}, options, progress), options, progress);
}

}  // namespace kedge
