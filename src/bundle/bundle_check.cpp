// SPDX-License-Identifier: Apache-2.0
#include "bundle/bundle_check.h"

#include "base/arithmetic.h"
#include "base/file_version.h"
#include "base/wording.h"
#include "regress/kernel_ridge.h"
#include "space/row_sketch.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace kedge {
namespace {

constexpr double kAny = std::numeric_limits<double>::max();

void require_finite(std::string_view what, std::span<const float> values) {
  if (!all_finite(values)) refuse("{} hold NaN or infinity", what);
}

void require_support(const Recipe& made, const LearnedAnchors& anchors) {
  std::set<std::int64_t> ids;
  for (const std::int64_t id : anchors.support_ids) {
    if (id < 0 || !ids.insert(id).second) refuse("its support id {} is negative or repeated", id);
    const auto row = static_cast<std::size_t>(id);
    if (row < made.rows.begin || row >= made.rows.end) {
      refuse("its support id {} is not among the rows {}:{} it was learned from", id, made.rows.begin, made.rows.end);
    }
  }
}

void require_convex(const Matrix& mixture) {
  for (std::size_t r = 0; r < mixture.rows(); ++r) {
    double sum = 0;
    for (const float weight : mixture.row(r)) sum += weight < 0 ? std::numeric_limits<double>::infinity() : weight;
    if (!(std::abs(sum - 1) < 1e-3)) refuse("row {} of its mixture is not convex", r);
  }
}

void require_within(std::string_view what, double value, double least, double most = kAny) {
  if (!(value >= least && value <= most)) refuse("its {} is {}, which is out of range", what, value);
}

void require_settings(const Recipe& made) {
  if (!is_version(made.kedge_version)) refuse("'{}' is not a version of kedge", made.kedge_version);
  require_within("shrinkage", made.whitening.shrinkage, 0, 1);
  require_within("epsilon", made.whitening.epsilon, 0);
  if (const auto* consensus = std::get_if<Consensus>(&made.method)) {
    require_within("power", consensus->power, 0);
    require_within("refine_rate", consensus->refinement.rate, 0);
    require_within("refine_tau", consensus->refinement.tau, 0);
  }
  if (const auto* adapter = std::get_if<Adapter>(&made.method)) require_within("power", adapter->power, 0);
}

/// `outputs`: how many it has an R^2 of, each from -most to most.
template <class Fit>
void require_r2(const std::string& space, const Fit& fit, std::size_t outputs, double most) {
  if (fit.r2.size() != outputs) refuse("'{}.r2' does not have a value per anchor", space);
  require_within("r2", fit.mean_r2, -most, most);
  require_finite(fmt::format("the r2 of '{}'", space), fit.r2);
}

/// A ridge or a kernel.
template <class Fit>
void require_fit(const std::string& space, const Fit& fit, std::size_t outputs, double most_r2) {
  require_within("strength", fit.strength, 0);
  require_within("whitening", fit.whitening, 0, 1);
  require_r2(space, fit, outputs, most_r2);
}

void require_weights(const std::string& space, const RelativeMap& map) {
  const std::string what = fmt::format("the weights of '{}'", space);
  require_finite(what, map.weight().cells());
  require_finite(what, map.bias());
  require_finite(what, map.mean());
}

void require_kernel_fit(const Attachment& space, const KernelFit& fit, std::size_t anchors) {
  const double width = space.map->kernel().value().width;
  if (fit.width != width) {
    refuse("the kernel of '{}' has a width of {}, but was made with {}", space.space(), width, fit.width);
  }
  require_fit(space.space(), fit, anchors, 1);
  require_within("error", fit.error, 0);
}

/// It was made by the one that it says was better.
void require_choice(const Attachment& space) {
  const AttachChoice* choice = space.choice();
  if (choice == nullptr) return;
  require_within("error", choice->ridge_error, 0);
  require_within("error", choice->kernel_error, 0);
  if (space.kernel() != nullptr ? choice->kernel_error <= choice->ridge_error
                                : choice->ridge_error <= choice->kernel_error) {
    return;
  }
  refuse("the map of '{}' was made by {}, but its choice has errors of {} for ridge and {} for kernel", space.space(),
         to_string(space.by), choice->ridge_error, choice->kernel_error);
}

void require_reverse(const Attachment& space, std::size_t support) {
  const RelativeMap* reverse = space.reverse();
  if (reverse == nullptr) return;
  if (reverse->output_dim() != space.map->input_dim()) {
    refuse("the way back to '{}' makes {} values, but its map takes {}", space.space(), reverse->output_dim(),
           space.map->input_dim());
  }
  if (!reverse->kernel()) refuse("the way back to '{}' has no kernel", space.space());
  require_space_name(reverse->space());
  require_weights(space.space(), *reverse);
  require_kernel(space.space(), *reverse, support);
}

void require_way(const Attachment& space, std::size_t anchors) {
  const std::string& name = space.space();
  if ((space.kernel() != nullptr) != space.map->kernel().has_value()) {
    refuse("the map of '{}' has a kernel that nothing is said of, or none where one is described", name);
  }
  if (const MixtureFit* fit = space.mixture()) require_r2(name, *fit, anchors, 1);
  if (const RidgeFit* fit = space.ridge()) require_fit(name, *fit, anchors, kAny);
  if (const KernelFit* fit = space.kernel()) require_kernel_fit(space, *fit, anchors);
  require_choice(space);
}

/// From the space that is there now.
void require_source_of_reverse(std::span<const Attachment> spaces, const Attachment& space) {
  const RelativeMap* reverse = space.reverse();
  if (reverse == nullptr) return;
  const auto from = std::ranges::find(spaces, reverse->space(), &Attachment::space);
  if (from == spaces.end()) {
    refuse("the way back to '{}' comes from '{}', but it has no map for that", space.space(), reverse->space());
  }
  if (from->map->input_dim() != reverse->input_dim()) {
    refuse("the way back from '{}' to '{}' takes {} values, but its map takes {}", from->space(), space.space(),
           reverse->input_dim(), from->map->input_dim());
  }
}

void require_check(const RowCheck& check) {
  if (check.among == 0 || check.among > check.rows) refuse("its check of rows does not add up");
  require_within("found_first", check.found_first, 0, 1);
  require_within("deviations", check.deviations, -kAny);
  if (!check.block) return;
  require_within("found_first", check.block->found_first, 0, 1);
  if (check.block->rows.begin >= check.block->rows.end) refuse("its check of rows ends before it begins");
}

void require_decoder(const Attachment& space, std::size_t anchors) {
  if (!space.decoder) return;
  const std::size_t dim = space.map->input_dim();
  const Decoder& back = *space.decoder;
  if (back.weight.rows() != dim || back.weight.cols() != anchors || back.bias.size() != dim ||
      back.fit.r2.size() != dim) {
    refuse("the decoder of '{}' does not fit its map", space.space());
  }
  require_finite(fmt::format("the decoder of '{}'", space.space()), back.weight.cells());
  require_finite(fmt::format("the decoder of '{}'", space.space()), back.bias);
  require_fit(space.space(), back.fit, dim, kAny);
}

/// All support rows, or those at places that are there.
void require_kept(const Attachment& space, std::size_t support) {
  if (!space.kept) return;
  const auto& [rows, places] = *space.kept;
  if (rows.rows() != (places.empty() ? support : places.size()) || rows.cols() != space.map->input_dim()) {
    refuse("the support rows of '{}' are {} x {}, which does not fit its map and the support", space.space(),
           rows.rows(), rows.cols());
  }
  require_finite(fmt::format("the support rows of '{}'", space.space()), rows.cells());
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] >= (i == 0 ? 0 : places[i - 1] + 1) && std::cmp_less(places[i], support)) continue;
    refuse("the place {} of a support row of '{}' is not one of {}, or not in order", places[i], space.space(),
           support);
  }
}

}  // namespace

void require_consistent(const Recipe& made, const LearnedAnchors& anchors) {
  const Matrix& mixture = anchors.mixture;
  if (mixture.cols() != anchors.support_ids.size()) {
    refuse("its mixture spans {} support rows, but it names {}", mixture.cols(), anchors.support_ids.size());
  }
  if (mixture.rows() == 0 || mixture.cols() == 0) {
    refuse("its mixture is {} x {}, which is empty", mixture.rows(), mixture.cols());
  }
  if (made.rows.begin >= made.rows.end) {
    refuse("it was learned from rows {}:{}, which is an empty range", made.rows.begin, made.rows.end);
  }
  require_support(made, anchors);
  const Matrix& targets = anchors.targets;
  const bool has_targets = targets.rows() != 0 || targets.cols() != 0;
  const bool regresses = made.similarity == Similarity::wip || is_adapter(made.method);
  if (has_targets && !regresses) refuse("it has targets, which its similarity cannot have");
  if (has_targets && (targets.rows() != mixture.cols() || targets.cols() != mixture.rows())) {
    refuse("its targets are {} x {}, but it has {} support rows and {} anchors", targets.rows(), targets.cols(),
           mixture.cols(), mixture.rows());
  }
  const Matrix& sketch = anchors.sketch;
  const bool has_sketch = sketch.rows() != 0 || sketch.cols() != 0;
  if (has_sketch && (sketch.cols() == 0 || sketch.rows() != checked_positions(mixture.cols()).size())) {
    refuse("its sketch has {} x {} values, which does not fit its {} support rows", sketch.rows(), sketch.cols(),
           mixture.cols());
  }
  if (is_convex(made.method)) require_convex(mixture);
  require_finite("the weights of its mixture", mixture.cells());
  require_finite("its targets", targets.cells());
  require_finite("the values of its sketch", sketch.cells());
  for (const double loss : anchors.refine_losses) require_within("loss of refinement", loss, -kAny);
  require_settings(made);
}

void require_kernel(const std::string& space, const RelativeMap& map, std::size_t support) {
  if (!map.kernel()) return;
  const Kernel& kernel = *map.kernel();
  const std::string what = fmt::format("the kernel of '{}'", space);
  require_within("kernel's width", kernel.width, kLeastWidth, kMostWidth);
  require_finite(what, kernel.whitener.cells());
  require_finite(what, kernel.rows.cells());
  require_finite(what, kernel.coefficients.cells());
  if (kernel.rows.rows() != support) {
    refuse("{} has {} rows, but the bundle has {} support rows", what, kernel.rows.rows(), support);
  }
  constexpr double kLongest = 1 + 1e-3;  // rounding is far below that
  for (std::size_t r = 0; r < kernel.rows.rows(); ++r) {
    double squares = 0;
    for (const double value : kernel.rows.row(r)) squares += value * value;
    if (!(squares <= kLongest * kLongest)) {
      refuse("row {} of {} has a length of {:g}, which should be 1, or 0", r, what, std::sqrt(squares));
    }
  }
}

void require_fits(const Recipe& made, const LearnedAnchors& anchors, const Attachment& space) {
  if (!space.map) refuse("a space without a map cannot be part of a bundle");
  const std::string& name = space.space();
  const std::size_t outputs = anchors.mixture.rows(), support = anchors.support_ids.size();
  const RelativeMap& map = *space.map;
  require_space_name(name);
  if (map.output_dim() != outputs) {
    refuse("it has {} anchors, but the map of '{}' has {}", outputs, name, map.output_dim());
  }
  if (map.similarity() != made.similarity) {
    refuse("its similarity is {}, but that of the map of '{}' is {}", to_string(made.similarity), name,
           to_string(map.similarity()));
  }
  require_within("shrinkage", space.shrinkage, 0, 1);
  if (space.row_check) require_check(*space.row_check);
  require_decoder(space, outputs);
  require_kept(space, support);
  require_way(space, outputs);
  require_reverse(space, support);
  require_weights(name, map);
  require_kernel(name, map, support);
}

UnknownSpace unknown_space(std::string_view name, std::span<const std::string> known) {
  return UnknownSpace(fmt::format("the bundle has no space '{}'; it has: {}{}", name, fmt::join(known, ", "),
                                  nearest(name, known) ? did_you_mean(name, known) : "; attach a new one first"));
}

void require_spaces(std::span<const std::string> sources, std::span<const Attachment> spaces) {
  std::set<std::string> seen;
  for (const Attachment& space : spaces) {
    if (!seen.insert(space.space()).second) refuse("it names the space '{}' twice", space.space());
    require_source_of_reverse(spaces, space);
  }
  for (const std::string& source : sources) {
    if (!seen.contains(source)) refuse("it was learned from '{}', but has no map for it", source);
  }
}

}  // namespace kedge
