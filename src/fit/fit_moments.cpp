// SPDX-License-Identifier: Apache-2.0
#include "base/finite.h"
#include "base/wording.h"
#include "compute/threads.h"
#include "fit/fit.h"
#include "fit/fit_options.h"
#include "space/variation.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>
#include <utility>

namespace kedge {
namespace {

template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(Code::bad_argument, fmt::format(text, std::forward<Arguments>(arguments)...));
}

void require_ids(std::span<const std::int64_t> ids) {
  if (ids.empty()) refuse("a fit from moments needs support rows, but none were given");
  std::vector<std::int64_t> sorted(ids.begin(), ids.end());
  std::ranges::sort(sorted);
  if (sorted.front() < 0) refuse("support id {} is negative; ids are row numbers", sorted.front());
  if (const auto repeated = std::ranges::adjacent_find(sorted); repeated != sorted.end()) {
    refuse("support id {} is given more than once; each row may be used once", *repeated);
  }
}

void require_rows(const Moments& moments, const SupportRows& support) {
  if (support.rows.size() != moments.parts().size()) {
    refuse("the moments are of {} space(s), but there are support rows of {}; give those of every space",
           moments.parts().size(), support.rows.size());
  }
  for (std::size_t i = 0; i < support.rows.size(); ++i) {
    const Matrix64& rows = support.rows[i];
    const Moments::Part& part = moments.parts()[i];
    if (rows.rows() != support.ids.size()) {
      refuse("space '{}': there are {} support ids, but {} support rows; give one row for each id, in their order",
             part.space, support.ids.size(), rows.rows());
    }
    if (rows.cols() != part.dim) {
      refuse("space '{}': the moments are of rows of {} values, but its support rows have {}", part.space, part.dim,
             rows.cols());
    }
    for (std::size_t r = 0; r < rows.rows(); ++r) {
      if (all_finite(rows.row(r))) continue;
      refuse("space '{}': its support row {} holds a value that is NaN or infinite", part.space, r);
    }
  }
}

/// What takes more than the support and the moments.
void require_no_other_rows(const FitOptions& options) {
  if (options.method == Method::param) {
    refuse(
        "param learns from batches of rows, which moments and support rows do not have; give spaces that hold a "
        "sample of the rows, without {}, or use another method",
        flag_words("support-rows"));
  }
  if (options.method == Method::consensus && options.consensus.refine_epochs > 0) {
    refuse(
        "refinement learns from batches of rows, which moments and support rows do not have; leave {} at 0, or give "
        "spaces that hold a sample of the rows, without {}",
        option_words("refine-epochs"), flag_words("support-rows"));
  }
  if (options.support_select != SupportSelect::random) {
    refuse("asked to select the support by {}, but support rows were given; give one or the other",
           to_string(options.support_select));
  }
}

void require_same_support(const FitOptions& options, const SupportRows& support) {
  if (options.support != 0 && options.support != support.ids.size()) {
    refuse("asked for a support of {} rows, but {} support rows were given", options.support, support.ids.size());
  }
  if (!options.support_ids.empty() && options.support_ids != support.ids) {
    refuse("the support ids of the options are not those of the support rows; leave one of them out");
  }
}

}  // namespace

RowRange range_of(std::size_t rows, std::span<const std::int64_t> ids) {
  return {0, std::max(rows, static_cast<std::size_t>(*std::ranges::max_element(ids)) + 1)};
}

Bundle fit(const Moments& moments, const SupportRows& support, const FitOptions& asked, const Progress& progress) {
  const Work work;
  require_no_other_rows(asked);
  FitOptions options = with_effort(asked, moments.parts().size());
  options.consensus.refine_epochs = 0;  // the best effort is that without other rows
  require_own_options(options);
  require_ids(support.ids);
  require_rows(moments, support);
  require_same_support(options, support);
  if (moments.rows() < support.ids.size()) {
    refuse("the moments are of {} rows, but there are {} support rows, which are some of them", moments.rows(),
           support.ids.size());
  }
  std::vector<std::string> names;
  for (const Moments::Part& part : moments.parts()) names.push_back(part.space);
  require_variation(moments, std::vector<std::string>(names.size(), "its rows"));
  Bundle bundle = begin_bundle(names, range_of(moments.rows(), support.ids), options);
  if (!is_adapter(options.method)) require_anchors(anchor_count(options, support.ids.size()), support.ids.size());
  FitInput input;
  for (const std::string& name : names) {
    input.statistics.push_back(
        statistics_of(moments.of(name), options.whitening, options.shrinkage_rule, options.device));
  }
  if (options.method == Method::consensus) input.joint = moments;
  input.support = support;
  complete_bundle(bundle, input, options, progress);
  std::vector<RowPool> pools;
  for (const Matrix64& rows : input.support.rows) pools.push_back(pool_of(rows));
  judge_sources(bundle, input.support.rows, input.statistics, pools);
  return bundle;
}

}  // namespace kedge
