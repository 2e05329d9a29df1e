// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"
#include "compute/threads.h"
#include "fit/fit.h"

#include <kedge/validate.h>

#include <algorithm>

namespace kedge {
namespace {

struct Parts {
  std::vector<Space> learned, scored;  ///< of each space, rows to fit on and rows to score
};

Parts split(std::span<const Space> spaces) {
  const std::size_t total = spaces.front().rows();
  const std::size_t stride =
      std::max(HeldOutRows::kStride, (total + HeldOutRows::kMostRows - 1) / HeldOutRows::kMostRows);
  if (total / stride < 2) {
    refuse("{} rows are too few to hold some of them out; validation needs {} or more", total,
           2 * HeldOutRows::kStride);
  }
  Parts parts;
  for (const Space& space : spaces) {
    RowIds learned, scored;
    for (std::size_t row = 0; row < total; ++row) {
      (row % stride == stride - 1 ? scored : learned).ids.push_back(space.file_row(row));
    }
    parts.learned.push_back(space.with_rows(std::move(learned)));
    parts.scored.push_back(space.with_rows(std::move(scored)));
  }
  return parts;
}

/// The fit's options that attaching a space takes as well.
AttachOptions attach_options_of(const Bundle& bundle, const FitOptions& options) {
  const AttachBy by = bundle.made().attach_by;
  AttachOptions own;
  if (by == AttachBy::ridge || by == AttachBy::automatic) own.ridge = options.ridge;
  if (by == AttachBy::kernel || by == AttachBy::automatic) own.kernel = options.kernel;
  own.device = options.device;
  return own;
}

HeldOutScore score(const Bundle& bundle, const Attachment& attached, const Parts& parts, std::size_t held_out,
                   const CompareOptions& options) {
  HeldOutScore mean{attached.space(), parts.scored[held_out].rows(), 0, std::vector<double>(options.recall_at.size()),
                    0};
  const Matrix rr = attached.map->apply(parts.scored[held_out].read_all().view());
  const auto share = 1 / static_cast<double>(parts.scored.size() - 1);
  for (std::size_t i = 0; i < parts.scored.size(); ++i) {
    if (i == held_out) continue;
    const Matrix other = bundle.map(parts.scored[i].name())->apply(parts.scored[i].read_all().view());
    const Comparison found = compare(other.view(), rr.view(), options);
    mean.mrr += share * found.mrr;
    mean.nmse += share * found.nmse;
    for (std::size_t k = 0; k < found.recall.size(); ++k) mean.recall[k] += share * found.recall[k];
  }
  return mean;
}

}  // namespace

std::vector<HeldOutScore> validate(std::span<const Space> spaces, const FitOptions& options,
                                   const CompareOptions& compare_options, const Progress& progress) {
  const Work work;
  require_parallel(spaces);
  if (spaces.size() < 3) {
    refuse("validation holds each space out in turn and needs three or more, but {} were given", spaces.size());
  }
  const Parts parts = split(spaces);
  FitOptions own = options;
  if (auto* param = std::get_if<Param>(&own.method)) param->checkpoint = {};
  if (!own.support && !own.support_ids.empty()) own.support = own.support_ids.size();
  own.support_ids.clear();
  if (own.support) own.support = std::min(*own.support, parts.learned.front().rows());
  std::vector<HeldOutScore> scores;
  for (std::size_t held_out = 0; held_out < spaces.size(); ++held_out) {
    std::vector<Space> sources;
    for (std::size_t i = 0; i < spaces.size(); ++i) {
      if (i != held_out) sources.push_back(parts.learned[i]);
    }
    const Bundle bundle = fit(sources, own, progress);
    const Attachment attached = attach(bundle, parts.learned[held_out], attach_options_of(bundle, options), progress);
    scores.push_back(score(bundle, attached, parts, held_out, compare_options));
  }
  return scores;
}

}  // namespace kedge
