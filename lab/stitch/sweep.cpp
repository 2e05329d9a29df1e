// SPDX-License-Identifier: Apache-2.0
#include "fit/fit.h"
#include "stitch/stitch_plan.h"

#include <kedge/lab/stitch.h>
#include <kedge/options/lists.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace kedge {
namespace {

/// A number of 0 is not set.
std::vector<std::optional<std::size_t>> counts_of(const std::vector<std::size_t>& given,
                                                  std::optional<std::size_t> otherwise) {
  if (given.empty()) return {otherwise};
  std::vector<std::optional<std::size_t>> counts;
  for (const std::size_t count : given) counts.push_back(count == 0 ? std::nullopt : std::optional(count));
  return counts;
}

}  // namespace

StitchOptions with_defaults(StitchOptions options, std::size_t train_rows) {
  if (options.points.empty()) return options;
  std::vector<StitchMethod> methods;
  for (StitchMethod method : options.methods) {
    const AttachBy way = way_of(method, options.points.front());
    if (regresses(way)) method.by = way;
    if (std::ranges::count(methods, method) == 0) methods.push_back(method);
  }
  options.methods = std::move(methods);
  const bool kernel = std::ranges::count(options.methods, AttachBy::kernel, &StitchMethod::by) > 0;
  for (FitArguments& point : options.points) {
    if (point.support || !point.support_ids.empty()) continue;
    point.support = std::min(kernel ? FitOptions::kKernelSupport : FitOptions::kDefaultSupport, train_rows);
  }
  return options;
}

std::vector<FitArguments> sweep_points(const FitArguments& fit, const std::vector<std::size_t>& anchors,
                                       const std::vector<std::size_t>& supports,
                                       const std::vector<std::string>& shrinkages) {
  std::vector<FitArguments> points;
  for (const std::optional<std::size_t> count : counts_of(anchors, fit.anchors)) {
    for (const std::optional<std::size_t> support : counts_of(supports, fit.support)) {
      FitArguments point = fit;
      point.anchors = count;
      point.support = support;
      if (shrinkages.empty()) points.push_back(point);
      for (const std::string& shrinkage : shrinkages) {
        set_shrinkage(points.emplace_back(point), shrinkage);
      }
    }
  }
  return points;
}

std::vector<FitArguments> leave_out_impossible(std::vector<FitArguments>& points, std::size_t train_rows) {
  const auto impossible = [&](const FitArguments& point) { return point.anchors > support_size(point, train_rows); };
  if (std::ranges::all_of(points, impossible)) return {};
  std::vector<FitArguments> left_out;
  std::ranges::copy_if(points, std::back_inserter(left_out), impossible);
  for (FitArguments& point : left_out) point.support = support_size(point, train_rows);
  std::erase_if(points, impossible);
  return left_out;
}

}  // namespace kedge
