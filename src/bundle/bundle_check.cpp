// SPDX-License-Identifier: Apache-2.0
#include "bundle/bundle_check.h"

#include "base/file_version.h"
#include "base/finite.h"
#include "base/wording.h"
#include "regress/kernel_ridge.h"
#include "space/row_sketch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

namespace kedge {
namespace {

constexpr double kAny = std::numeric_limits<double>::max();

template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(Code::bad_argument, fmt::format(text, std::forward<Arguments>(arguments)...));
}

void require_finite(std::string_view what, std::span<const float> values) {
  if (!all_finite(values)) refuse("{} hold NaN or infinity", what);
}

void require_support(const Bundle& bundle) {
  std::set<std::int64_t> ids;
  for (const std::int64_t id : bundle.support_ids) {
    if (id < 0 || !ids.insert(id).second) refuse("its support id {} is negative or repeated", id);
    const auto row = static_cast<std::size_t>(id);
    if (row < bundle.rows.begin || row >= bundle.rows.end) {
      refuse("its support id {} is not among the rows {}:{} it was learned from", id, bundle.rows.begin,
             bundle.rows.end);
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

void require_settings(const Bundle& bundle) {
  if (!is_version(bundle.kedge_version)) refuse("'{}' is not a version of kedge", bundle.kedge_version);
  require_within("shrinkage", bundle.whitening.shrinkage, 0, 1);
  require_within("epsilon", bundle.whitening.epsilon, 0);
  if (const auto* consensus = std::get_if<Consensus>(&bundle.method)) {
    require_within("power", consensus->power, 0);
    require_within("refine_rate", consensus->refinement.rate, 0);
    require_within("refine_tau", consensus->refinement.tau, 0);
  }
  if (const auto* adapter = std::get_if<Adapter>(&bundle.method)) require_within("power", adapter->power, 0);
  for (const double loss : bundle.refine_losses) require_within("loss of refinement", loss, -kAny);
}

void require_fit(const std::string& space, const RidgeFit& fit) {
  require_within("strength", fit.strength, 0);
  require_within("whitening", fit.whitening, 0, 1);
  require_within("r2", fit.mean_r2, -kAny);
  require_finite(fmt::format("the r2 of '{}'", space), fit.r2);
}

void require_weights(const std::string& space, const RelativeMap& map) {
  const std::string what = fmt::format("the weights of '{}'", space);
  require_finite(what, map.weight().cells());
  require_finite(what, map.bias());
  require_finite(what, map.mean());
}

void require_kernel_fit(const Attachment& space, std::size_t anchors) {
  const std::string& name = space.space();
  const bool said = space.kernel.has_value();
  if (said != space.map->kernel().has_value() || said != (space.by == AttachBy::kernel)) {
    refuse("the map of '{}' has a kernel that nothing is said of, or none where one is described", name);
  }
  if (!said) return;
  const KernelFit& fit = *space.kernel;
  if (fit.width != space.map->kernel()->width) {
    refuse("the kernel of '{}' has a width of {}, but was made with {}", name, space.map->kernel()->width, fit.width);
  }
  if (fit.r2.size() != anchors) refuse("'{}.r2' does not have a value per anchor", name);
  require_within("strength", fit.strength, 0);
  require_within("whitening", fit.whitening, 0, 1);
  require_within("r2", fit.mean_r2, -1, 1);
  require_within("error", fit.error, 0);
  require_finite(fmt::format("the r2 of '{}'", name), fit.r2);
}

/// It was made by the one that it says was better.
void require_choice(const Attachment& space) {
  if (!space.choice) return;
  const AttachChoice& choice = *space.choice;
  require_within("error", choice.ridge_error, 0);
  require_within("error", choice.kernel_error, 0);
  const bool by_kernel = space.by == AttachBy::kernel && choice.kernel_error <= choice.ridge_error;
  const bool by_ridge = space.by == AttachBy::ridge && choice.ridge_error <= choice.kernel_error;
  if (by_kernel || by_ridge) return;
  refuse("the map of '{}' was made by {}, but its choice has errors of {} for ridge and {} for kernel", space.space(),
         to_string(space.by), choice.ridge_error, choice.kernel_error);
}

void require_reverse(const Attachment& space, std::size_t support) {
  if (!space.reverse) return;
  if (space.reverse->output_dim() != space.map->input_dim()) {
    refuse("the way back to '{}' makes {} values, but its map takes {}", space.space(), space.reverse->output_dim(),
           space.map->input_dim());
  }
  if (!space.reverse->kernel()) refuse("the way back to '{}' has no kernel", space.space());
  require_space_name(space.reverse->space());
  require_weights(space.space(), *space.reverse);
  require_kernel(space.space(), *space.reverse, support);
}

/// From the space that is there now.
void require_source_of_reverse(const Bundle& bundle, const Attachment& space) {
  if (!space.reverse) return;
  const auto from = std::ranges::find(bundle.spaces, space.reverse->space(), &Attachment::space);
  if (from == bundle.spaces.end()) {
    refuse("the way back to '{}' comes from '{}', but it has no map for that", space.space(), space.reverse->space());
  }
  if (from->map->input_dim() != space.reverse->input_dim()) {
    refuse("the way back from '{}' to '{}' takes {} values, but its map takes {}", from->space(), space.space(),
           space.reverse->input_dim(), from->map->input_dim());
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
  require_fit(space.space(), back.fit);
}

}  // namespace

void require_consistent(const Bundle& bundle) {
  const Matrix& mixture = bundle.mixture;
  if (mixture.cols() != bundle.support_ids.size()) {
    refuse("its mixture spans {} support rows, but it names {}", mixture.cols(), bundle.support_ids.size());
  }
  if (mixture.rows() == 0 || mixture.cols() == 0) {
    refuse("its mixture is {} x {}, which is empty", mixture.rows(), mixture.cols());
  }
  if (bundle.rows.begin >= bundle.rows.end) {
    refuse("it was learned from rows {}:{}, which is an empty range", bundle.rows.begin, bundle.rows.end);
  }
  require_support(bundle);
  const Matrix& targets = bundle.targets;
  const bool has_targets = targets.rows() != 0 || targets.cols() != 0;
  const bool regresses = bundle.similarity == Similarity::wip || is_adapter(bundle.method);
  if (has_targets && !regresses) refuse("it has targets, which its similarity cannot have");
  if (has_targets && (targets.rows() != mixture.cols() || targets.cols() != mixture.rows())) {
    refuse("its targets are {} x {}, but it has {} support rows and {} anchors", targets.rows(), targets.cols(),
           mixture.cols(), mixture.rows());
  }
  const Matrix& sketch = bundle.sketch;
  const bool has_sketch = sketch.rows() != 0 || sketch.cols() != 0;
  if (has_sketch && (sketch.cols() == 0 || sketch.rows() != checked_positions(mixture.cols()).size())) {
    refuse("its sketch has {} x {} values, which does not fit its {} support rows", sketch.rows(), sketch.cols(),
           mixture.cols());
  }
  if (is_convex(bundle.method)) require_convex(mixture);
  require_finite("the weights of its mixture", mixture.cells());
  require_finite("its targets", targets.cells());
  require_finite("the values of its sketch", sketch.cells());
  require_settings(bundle);
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

void require_fits(const Bundle& bundle, const Attachment& space) {
  if (!space.map) refuse("a space without a map cannot be part of a bundle");
  const std::string& name = space.space();
  const std::size_t anchors = bundle.mixture.rows();
  const RelativeMap& map = *space.map;
  require_space_name(name);
  if (map.output_dim() != anchors) {
    refuse("it has {} anchors, but the map of '{}' has {}", anchors, name, map.output_dim());
  }
  if (map.similarity() != bundle.similarity) {
    refuse("its similarity is {}, but that of the map of '{}' is {}", to_string(bundle.similarity), name,
           to_string(map.similarity()));
  }
  require_within("shrinkage", space.shrinkage, 0, 1);
  const int fits = space.ridge.has_value() + space.mixture.has_value() + space.kernel.has_value();
  const bool ridge_fits = !space.ridge || space.ridge->r2.size() == anchors;
  const bool mixture_fits = !space.mixture || space.mixture->r2.size() == anchors;
  if (fits > 1 || !ridge_fits || !mixture_fits) refuse("'{}.r2' does not have a value per anchor", name);
  if (space.ridge) require_fit(name, *space.ridge);
  if (space.mixture) require_within("r2", space.mixture->mean_r2, -1, 1);
  if (space.mixture) require_finite(fmt::format("the r2 of '{}'", name), space.mixture->r2);
  if (space.row_check) require_check(*space.row_check);
  require_decoder(space, anchors);
  if (space.by == AttachBy::automatic) refuse("'{}' is attached by auto, which is no way to make a map", name);
  require_choice(space);
  require_kernel_fit(space, anchors);
  require_reverse(space, bundle.support_ids.size());
  require_weights(name, map);
  require_kernel(name, map, bundle.support_ids.size());
}

UnknownSpace unknown_space(std::string_view name, std::span<const std::string> known) {
  return UnknownSpace(fmt::format("the bundle has no space '{}'; it has: {}{}", name, fmt::join(known, ", "),
                                  nearest(name, known) ? did_you_mean(name, known) : "; attach a new one first"));
}

void require_sources(const Bundle& bundle) {
  std::set<std::string> seen;
  for (const Attachment& space : bundle.spaces) {
    if (!seen.insert(space.space()).second) refuse("it names the space '{}' twice", space.space());
    require_source_of_reverse(bundle, space);
  }
  for (const std::string& source : bundle.sources) {
    if (!seen.contains(source)) refuse("it was learned from '{}', but has no map for it", source);
  }
}

}  // namespace kedge
