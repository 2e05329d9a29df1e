// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/refine.h"
#include "base/wording.h"
#include "fit/attach.h"
#include "fit/fit.h"
#include "regress/kernel_ridge.h"

#include <algorithm>
#include <filesystem>
#include <limits>

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
  if (const auto* consensus = std::get_if<Consensus>(&options.method)) {
    require_within("power", consensus->power, 0, kAny);
    require_within("refine-rate", consensus->refinement.rate, 0, kAny);
    require_within("refine-tau", consensus->refinement.tau, 0, kAny);
  }
  if (const auto* adapter = std::get_if<Adapter>(&options.method)) require_within("power", adapter->power, 0, kAny);
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

void require_robust(std::size_t spaces, const FitOptions& options) {
  if (!options.robust) return;
  const std::string robust = flag_words("robust");
  if (spaces < 2) refuse("{} compares the rows of spaces with each other, but there is one; leave it out", robust);
  if (is_adapter(options.method)) return;
  if (!std::holds_alternative<Consensus>(options.method) || options.similarity != Similarity::wip ||
      !regresses(attach_by(options))) {
    refuse(
        "{} leaves rows out of regressions, which {} with the similarity {}, attached by {}, does not make; use the "
        "method consensus with the similarity wip, attached by ridge or kernel, or align a pair",
        robust, to_string(options.method), to_string(options.similarity), to_string(attach_by(options)));
  }
  if (refinement_of(options) != nullptr) {
    refuse("{} leaves wrong rows out, but refinement learns from all rows; leave out one of them", robust);
  }
}

constexpr Names<Effort, 2> kEffortNames{"effort", {"fast", "best"}};

}  // namespace

std::string_view to_string(Effort effort) {
  return kEffortNames.of(effort);
}
Effort parse_effort(std::string_view name) {
  return kEffortNames.parse(name);
}
std::vector<std::string_view> effort_names() {
  return kEffortNames.all();
}

AttachBy attach_by(const FitOptions& options) {
  const bool best =
      options.effort == Effort::best && options.similarity == Similarity::wip && !is_adapter(options.method);
  return options.attach_by.value_or(best ? AttachBy::kernel : default_attach_by(options.method, options.similarity));
}

AttachBy attach_by(const Bundle& bundle, const AttachOptions& options) {
  const bool best = options.effort == Effort::best && bundle.anchors().targets.rows() != 0;
  return options.by.value_or(best ? AttachBy::kernel : bundle.made().attach_by);
}

bool makes_kernels(const FitOptions& options) {
  if (is_adapter(options.method)) return is_adapter(options.method, Pairwise::kernel);
  const AttachBy by = attach_by(options);
  return by == AttachBy::kernel || by == AttachBy::automatic;
}

FitOptions with_effort(FitOptions options, std::size_t spaces, bool others) {
  if (options.effort == Effort::fast) return options;
  options.attach_by = attach_by(options);
  auto* consensus = std::get_if<Consensus>(&options.method);
  const bool refines = spaces > 1 && others && !options.robust;
  if (consensus != nullptr && refines && !consensus->refinement.epochs) {
    consensus->refinement.epochs = Refinement::kBestEpochs;
  }
  return options;
}

const Refinement* refinement_of(const FitOptions& options) {
  const auto* consensus = std::get_if<Consensus>(&options.method);
  return consensus != nullptr && consensus->refinement.epochs.value_or(0) > 0 ? &consensus->refinement : nullptr;
}

void require_regression_options(AttachBy by, const std::optional<double>& ridge, const KernelOptions& kernel) {
  const auto refuse_unless = [&](bool used, const std::string& given, AttachBy instead) {
    if (used) return;
    refuse("{} was given, but spaces are attached by {}; give {}", given, to_string(by),
           option_words("attach", to_string(instead)));
  };
  const bool both = by == AttachBy::automatic;
  refuse_unless(!ridge || by == AttachBy::ridge || both, option_words("ridge"), AttachBy::ridge);
  refuse_unless(kernel == KernelOptions{} || by == AttachBy::kernel || both,
                "a width, strength or whitening of a kernel", AttachBy::kernel);
  require_valid(kernel);
}

void require_valid(std::size_t spaces, const FitOptions& options) {
  require_numbers(options);
  require_attach(options);
  if (is_adapter(options.method)) require_adapter(spaces, options);
  require_robust(spaces, options);
  if (options.keep_rows && is_adapter(options.method)) {
    refuse("{} translates by a regression of the pair itself, so that {} adds nothing; leave it out",
           to_string(options.method), flag_words("keep-rows"));
  }
  if (const Refinement* refinement = refinement_of(options)) require_refinement(spaces, *refinement);
  require_precision(options.device, options.precision);
}

std::size_t support_size(const FitOptions& options, std::size_t rows) {
  if (!options.support_ids.empty()) return options.support_ids.size();
  if (options.support) return *options.support;
  return std::min(makes_kernels(options) ? FitOptions::kKernelSupport : FitOptions::kDefaultSupport, rows);
}

bool has_others(const FitOptions& options, std::size_t rows) {
  return support_size(options, rows) < rows;
}

std::size_t anchor_count(const FitOptions& options, std::size_t rows) {
  return options.anchors ? *options.anchors : std::min(FitOptions::kDefaultAnchors, support_size(options, rows));
}

std::string tell_of_fewer_anchors(const Bundle& bundle, const FitOptions& options) {
  const std::size_t anchors = bundle.anchors().mixture.rows();
  if (options.anchors &&
      (std::holds_alternative<Consensus>(options.method) || is_adapter(options.method, Pairwise::cca))) {
    if (anchors >= *options.anchors) return "";
    const std::size_t spaces = bundle.made().sources.size();
    return fmt::format("asked for {0} anchors, but the {2} only {1} directions, so the bundle has {1}",
                       *options.anchors, anchors, spaces == 1 ? "space has" : "spaces share");
  }
  if (options.anchors || is_adapter(options.method) || anchors >= FitOptions::kDefaultAnchors) return "";
  const bool all = anchors >= bundle.anchors().support_ids.size();
  return fmt::format("the bundle has {} anchors, not {}: {}", anchors, FitOptions::kDefaultAnchors,
                     all                                 ? "there are no more support rows"
                     : bundle.made().sources.size() == 1 ? "the space has no more directions"
                                                         : "that is how many directions the spaces share");
}

void remove_checkpoint(const FitOptions& options) {
  const auto* param = std::get_if<Param>(&options.method);
  if (param != nullptr && !param->checkpoint.path.empty()) std::filesystem::remove(param->checkpoint.path);
}

}  // namespace kedge
