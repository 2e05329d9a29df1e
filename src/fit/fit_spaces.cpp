// SPDX-License-Identifier: Apache-2.0
#include "fit/fit_spaces.h"

#include "compute/device.h"
#include "compute/threads.h"
#include "fit/choose_support.h"
#include "fit/fit.h"
#include "fit/fit_options.h"
#include "space/sum_rows.h"
#include "space/variation.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <optional>
#include <utility>

namespace kedge {
namespace {

std::vector<std::string> names_of(std::span<const Space> spaces) {
  std::vector<std::string> names;
  for (const Space& space : spaces) names.push_back(space.name());
  return names;
}

Bundle prepare(std::span<const Space> spaces, const FitOptions& options) {
  require_parallel(spaces);
  Bundle bundle = begin_bundle(names_of(spaces), spaces.front().range(), options);
  prepare_support(bundle, spaces, options);
  return bundle;
}

/// A GPU does not take the sums that Ledoit-Wolf needs, and nobody else needs them.
Moments read_moments(std::span<const Space> spaces, ShrinkageRule rule, Device device, const Progress& progress) {
  if (rule == ShrinkageRule::ledoit_wolf) return compute_joint_moments(spaces, Device::cpu, Highest::fourth, progress);
  return compute_joint_moments(spaces, device, Highest::second, progress);
}

std::vector<Statistics> split(const Moments& joint, const FitOptions& options) {
  std::vector<Statistics> statistics;
  for (const Moments::Part& part : joint.parts()) {
    statistics.push_back(
        statistics_of(joint.of(part.space), options.whitening, options.shrinkage_rule, options.device));
  }
  return statistics;
}

void require_widths(const Moments& moments, std::span<const Space> spaces) {
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    if (moments.parts()[i].dim == spaces[i].dim()) continue;
    throw Error(Code::bad_argument,
                fmt::format("space '{}': the moments are of rows of {} values, but {} has {}", spaces[i].name(),
                            moments.parts()[i].dim, spaces[i].source().label(), spaces[i].dim()));
  }
}

void read_support(const Bundle& bundle, std::span<const Space> spaces, FitInput& input) {
  if (!input.support.rows.empty()) return;
  input.rows = spaces;
  input.support.ids = bundle.support_ids;
  for (const Space& space : spaces) input.support.rows.push_back(space.gather(bundle.support_ids));
}

/// Selects the support where that takes all rows, reads it, and completes the bundle.
void complete(Bundle& bundle, std::span<const Space> spaces, FitInput& input, const FitOptions& options,
              const Progress& progress) {
  if (bundle.support_ids.empty()) {
    if (bundle.similarity == Similarity::wip) {
      for (const Statistics& own : input.statistics) require_whitenable(own);
    }
    select_support(bundle, spaces, input.statistics, options, progress);
  }
  read_support(bundle, spaces, input);
  complete_bundle(bundle, input, options, progress);
}

void judge(Bundle& bundle, std::span<const Space> spaces, const FitInput& input) {
  std::vector<RowPool> pools;
  for (const Space& space : spaces) pools.push_back(pool_of(space, bundle.support_ids));
  judge_sources(bundle, input.support.rows, input.statistics, pools);
}

}  // namespace

Statistics read_statistics(const Space& space, const WhiteningOptions& options, ShrinkageRule rule, bool whitened,
                           Device device, const Progress& progress) {
  Statistics statistics = statistics_of(read_moments({&space, 1}, rule, device, progress), options, rule, device);
  if (whitened) statistics.whitening = whitening_of(statistics);
  return statistics;
}

SupportRows read_support_rows(std::span<const Space> spaces, std::vector<std::int64_t> ids) {
  SupportRows support{std::move(ids), {}};
  for (const Space& space : spaces) space.read(0, support.rows.emplace_back(space.rows(), space.dim()).view());
  return support;
}

void require_fit(std::span<const Space> spaces, const FitOptions& options) {
  (void)prepare(spaces, with_effort(options, spaces.size()));
}

Bundle fit(std::span<const Space> spaces, const FitOptions& asked, const Progress& progress) {
  const Work work;
  const FitOptions options = with_effort(asked, spaces.size());
  Bundle bundle = prepare(spaces, options);
  require_own_options(options);
  FitInput input;
  if (options.method == Method::consensus) {
    const std::jthread loading = prepare(options.device);
    if (!bundle.support_ids.empty()) read_support(bundle, spaces, input);
    input.joint = read_moments(spaces, options.shrinkage_rule, options.device, progress);
    input.statistics = split(*input.joint, options);
  } else {
    for (const Space& space : spaces) {
      input.statistics.push_back(
          read_statistics(space, options.whitening, options.shrinkage_rule, false, options.device, progress));
    }
  }
  complete(bundle, spaces, input, options, progress);
  judge(bundle, spaces, input);
  return bundle;
}

Bundle fit(const Moments& moments, std::span<const Space> spaces, const FitOptions& asked, const Progress& progress) {
  const Work work;
  const FitOptions options = with_effort(asked, spaces.size());
  Bundle bundle = prepare(spaces, options);
  require_own_options(options);
  FitInput input;
  input.joint = moments.of(names_of(spaces));
  require_widths(*input.joint, spaces);
  if (moments.rows() < spaces.front().rows()) {
    throw Error(Code::bad_argument,
                fmt::format("the moments are of {} rows, but the spaces have {}, which are all rows "
                            "or a sample of them; is a part of the moments missing?",
                            moments.rows(), spaces.front().rows()));
  }
  require_variation(*input.joint, std::vector<std::string>(spaces.size(), "its rows"));
  input.statistics = split(*input.joint, options);
  complete(bundle, spaces, input, options, progress);
  judge(bundle, spaces, input);
  return bundle;
}

Bundle fit(std::span<const Space> spaces, std::vector<Statistics> statistics, const FitOptions& asked,
           const Progress& progress) {
  const Work work;
  const FitOptions options = with_effort(asked, spaces.size());
  Bundle bundle = prepare(spaces, options);
  FitInput input;
  input.statistics = std::move(statistics);
  if (options.method == Method::consensus) {
    input.joint = read_moments(spaces, options.shrinkage_rule, options.device, progress);
  }
  complete(bundle, spaces, input, options, progress);
  return bundle;
}

}  // namespace kedge
