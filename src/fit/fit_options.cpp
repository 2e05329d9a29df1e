// SPDX-License-Identifier: Apache-2.0
#include "fit/fit_options.h"

#include "anchors/param/refine.h"
#include "base/wording.h"
#include "fit/adapter.h"
#include "regress/kernel_ridge.h"

#include <fmt/format.h>
#include <kedge/device.h>
#include <kedge/error.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace kedge {
namespace {

void require_within(std::string_view name, double value, double least, double most) {
  if (value >= least && value <= most) return;
  throw Error(Code::bad_argument,
              most == std::numeric_limits<double>::max()
                  ? fmt::format("{} is {}, expected a number of {} or more", option_words(name), value, least)
                  : fmt::format("{} is {}, expected a number from {} to {}", option_words(name), value, least, most));
}

void require_numbers(const FitOptions& options) {
  constexpr double kAny = std::numeric_limits<double>::max();
  require_within("shrinkage", options.whitening.shrinkage, 0, 1);
  require_within("epsilon", options.whitening.epsilon, 0, kAny);
  require_within("power", options.consensus.power, 0, kAny);
  require_within("refine-rate", options.consensus.refine_rate, 0, kAny);
  require_within("refine-tau", options.consensus.refine_tau, 0, kAny);
  if (options.ridge) require_within("ridge", *options.ridge, 0, kMostRidge);
}

void require_attach(const FitOptions& options) {
  const AttachBy by = attach_by(options);
  if (by == AttachBy::mixture && is_adapter(options.method)) {
    throw Error(Code::bad_argument,
                fmt::format("{} has no anchors to mix, so spaces cannot be attached by mixture; attach them by ridge",
                            to_string(options.method)));
  }
  if (regresses(by) && options.similarity != Similarity::wip && !is_adapter(options.method)) {
    throw Error(Code::bad_argument, fmt::format("spaces cannot be attached by {} with the similarity {}: it has no "
                                                "targets to regress; use the similarity wip, or attach by mixture",
                                                to_string(by), to_string(options.similarity)));
  }
  if (makes_kernels(options)) {
    require_valid(options.kernel);
    require_regression_options(by, options.ridge, {});
  } else {
    require_regression_options(is_adapter(options.method) ? AttachBy::ridge : by, options.ridge, options.kernel);
  }
}

bool same_value(const Option& one, const Option& other) {
  return std::visit(
      [&](const auto& value) {
        using Value = std::decay_t<decltype(value)>;
        const auto& others = std::get<Value>(other.value);
        if constexpr (std::is_same_v<Value, TextValue>) {
          return value.get() == others.get();
        } else {
          return *value == *others;
        }
      },
      one.value);
}

bool belongs_to(const Option& option, Method method) {
  return option.group.empty() || option.group == to_string(method) || (option.name == "power" && method == Method::cca);
}

}  // namespace

AttachBy attach_by(const FitOptions& options) {
  const bool best =
      options.effort == Effort::best && options.similarity == Similarity::wip && !is_adapter(options.method);
  return options.attach_by.value_or(best ? AttachBy::kernel : default_attach_by(options.method, options.similarity));
}

AttachBy attach_by(const Bundle& bundle, const AttachOptions& options) {
  const bool best = options.effort == Effort::best && bundle.targets.rows() != 0;
  return options.by.value_or(best ? AttachBy::kernel : bundle.attach_by);
}

bool makes_kernels(const FitOptions& options) {
  if (is_adapter(options.method)) return options.method == Method::kernel;
  const AttachBy by = attach_by(options);
  return by == AttachBy::kernel || by == AttachBy::automatic;
}

FitOptions with_effort(FitOptions options, std::size_t spaces) {
  if (options.effort == Effort::fast) return options;
  options.attach_by = attach_by(options);
  if (options.method == Method::consensus && spaces > 1 && options.consensus.refine_epochs == 0) {
    options.consensus.refine_epochs = FitOptions::kBestRefineEpochs;
  }
  return options;
}

void require_regression_options(AttachBy by, const std::optional<double>& ridge, const KernelOptions& kernel) {
  const auto refuse = [&](const std::string& given, AttachBy instead) {
    throw Error(Code::bad_argument, fmt::format("{} was given, but spaces are attached by {}; give {}", given,
                                                to_string(by), option_words("attach", to_string(instead))));
  };
  if (ridge && by != AttachBy::ridge && by != AttachBy::automatic) refuse(option_words("ridge"), AttachBy::ridge);
  const bool uses_kernel = by == AttachBy::kernel || by == AttachBy::automatic;
  if (kernel != KernelOptions{} && !uses_kernel) refuse("a width, strength or whitening of a kernel", AttachBy::kernel);
  require_valid(kernel);
}

void require_valid(std::size_t spaces, const FitOptions& options) {
  require_numbers(options);
  require_attach(options);
  if (is_adapter(options.method)) require_adapter(spaces, options);
  const bool refines = options.method == Method::consensus && options.consensus.refine_epochs > 0;
  if (refines) require_refinement(spaces, options.consensus);
  require_precision(options.device, options.precision);
  if (options.keep != 0 && !is_convex(options.method)) {
    throw Error(Code::bad_argument,
                fmt::format("asked to keep the {} largest weights of each anchor, but {} makes signed weights that "
                            "cannot be dropped one by one; keep all, or use param, kmeans, fps or random",
                            options.keep, to_string(options.method)));
  }
}

std::size_t support_size(const FitOptions& options, std::size_t rows) {
  if (!options.support_ids.empty()) return options.support_ids.size();
  if (options.support != 0) return options.support;
  return std::min(makes_kernels(options) ? FitOptions::kKernelSupport : FitOptions::kDefaultSupport, rows);
}

std::size_t anchor_count(const FitOptions& options, std::size_t rows) {
  return options.anchors == 0 ? std::min(FitOptions::kDefaultAnchors, support_size(options, rows)) : options.anchors;
}

void require_own_options(const FitOptions& options) {
  FitOptions asked = options;
  FitOptions defaults;
  const std::vector<Option> given = options_of(asked);
  const std::vector<Option> otherwise = options_of(defaults);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (belongs_to(given[i], options.method) || same_value(given[i], otherwise[i])) continue;
    throw Error(Code::bad_argument,
                fmt::format("{} belongs to the method {}, but the method is {}; choose the method {}, or leave out {}",
                            option_words(given[i].name), given[i].group, to_string(options.method), given[i].group,
                            option_words(given[i].name)));
  }
}

std::string tell_of_fewer_anchors(const Bundle& bundle, const FitOptions& options) {
  const std::size_t anchors = bundle.mixture.rows();
  if (options.anchors != 0 && (options.method == Method::consensus || options.method == Method::cca)) {
    if (anchors >= options.anchors) return "";
    const std::size_t spaces = bundle.sources.size();
    return fmt::format("asked for {0} anchors, but the {2} only {1} directions, so the bundle has {1}", options.anchors,
                       anchors, spaces == 1 ? "space has" : "spaces share");
  }
  if (options.anchors != 0 || is_adapter(options.method) || anchors >= FitOptions::kDefaultAnchors) return "";
  const bool all = anchors >= bundle.support_ids.size();
  return fmt::format("the bundle has {} anchors, not {}: {}", anchors, FitOptions::kDefaultAnchors,
                     all                          ? "there are no more support rows"
                     : bundle.sources.size() == 1 ? "the space has no more directions"
                                                  : "that is how many directions the spaces share");
}

void remove_checkpoint(const FitOptions& options) {
  if (options.method == Method::param && !options.checkpoint.path.empty()) {
    std::filesystem::remove(options.checkpoint.path);
  }
}

}  // namespace kedge
