// SPDX-License-Identifier: Apache-2.0
#include "compute/devices.h"
#include "compute/sequence.h"
#include "gpu/check.h"
#include "gpu/toy.h"

#include <fmt/format.h>
#include <kedge/kedge.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <filesystem>
#include <optional>
#include <utility>

namespace kedge::test {
namespace {

FitOptions fit_options(const CheckOptions& check, Device device, Precision precision) {
  FitOptions options;
  options.method = Param{};
  options.anchors = check.quick ? 24 : 65;
  options.support = check.quick ? 70 : 3000;  // enough for several blocks of a GPU to a row of the mixture
  std::get<Param>(options.method).batch = check.quick ? 64 : 256;
  std::get<Param>(options.method).epochs = 2;
  options.device = device;
  options.precision = precision;
  return options;
}

/// Coverage over all rows, in chunks; the last chunk is shorter.
FitOptions covering_options(const CheckOptions& check, Device device, Precision precision) {
  FitOptions options = fit_options(check, device, precision);
  std::get<Param>(options.method).coverage_rows = CoverageRows::all;
  std::get<Param>(options.method).coverage_chunk = check.quick ? 100 : 1000;
  return options;
}

FitOptions refined_options(const CheckOptions& check, Device device, Precision precision) {
  FitOptions options = fit_options(check, device, precision);
  options.method = Consensus{};
  std::get<Consensus>(options.method).refinement.epochs = 2;
  std::get<Consensus>(options.method).refinement.rate = 0.05;  // so that two epochs are seen in the losses
  std::get<Consensus>(options.method).refinement.batch = check.quick ? 64 : 256;
  return options;
}

/// The largest relative difference of the epochs' losses.
double loss_difference(const Bundle& found, const Bundle& wanted) {
  double worst = found.anchors().history.size() == wanted.anchors().history.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(found.anchors().history.size(), wanted.anchors().history.size()); ++i) {
    const Losses& a = found.anchors().history[i];
    const Losses& b = wanted.anchors().history[i];
    for (const auto part :
         {&Losses::total, &Losses::symnce, &Losses::coverage, &Losses::orthogonality, &Losses::length}) {
      const double off = std::abs(a.*part - b.*part) / std::abs(b.*part);
      worst = std::isnan(off) ? INFINITY : std::max(worst, off);
    }
  }
  return worst;
}

double refine_difference(const Bundle& found, const Bundle& wanted) {
  if (found.anchors().refine_losses.empty() ||
      found.anchors().refine_losses.size() != wanted.anchors().refine_losses.size())
    return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < wanted.anchors().refine_losses.size(); ++i) {
    const double off = std::abs(found.anchors().refine_losses[i] - wanted.anchors().refine_losses[i]) /
                       std::abs(wanted.anchors().refine_losses[i]);
    worst = std::isnan(off) ? INFINITY : std::max(worst, off);
  }
  return worst;
}

bool same_training(const Bundle& a, const Bundle& b) {
  return same_bits(a.anchors().mixture, b.anchors().mixture) && loss_difference(a, b) == 0;
}

struct Stop : std::exception {};

/// Stopped by its progress after half of the steps, and taken up again from the checkpoint that leaves; none if it
/// leaves no checkpoint.
std::optional<Bundle> fit_in_two_goes(const Toy& toy, FitOptions options) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("kedge-gpu-check-{}", ::getpid());
  std::get<Param>(options.method).checkpoint.path = path.string();
  try {
    (void)fit(toy.spaces(), options, [](const ProgressReport& report) {
      if (report.step == "learning" && report.done >= report.total / 2) throw Stop{};
    });
  } catch (const Stop&) {
    std::get<Param>(options.method).checkpoint.resume = true;
  }
  if (!std::get<Param>(options.method).checkpoint.resume || !std::filesystem::exists(path)) return {};
  Bundle bundle = fit(toy.spaces(), options);
  std::filesystem::remove(path);
  return bundle;
}

constexpr std::size_t kSteps = 20;  // more than a backend may take at once

std::vector<Matrix> direct(Backend& backend, Sequence::Parts parts) {
  Sequence sequence(backend, parts);
  for (std::size_t i = 0; i < kSteps; ++i) sequence.step();
  return sequence.read();
}

std::vector<Matrix> recorded(Backend& backend, Sequence::Parts parts) {
  Sequence sequence(backend, parts);
  const auto recording = backend.record([&] { sequence.step(); });
  recording->run(1);
  recording->run(kSteps - 1);
  return sequence.read();
}

CheckPromise same(std::string what, bool holds) {
  return {std::move(what), holds ? "same bits" : "other bits", holds};
}

CheckPromise as_processor(std::string what, double off) {
  return {std::move(what), fmt::format("{:.2g}", off), off < kLossTolerance};
}

/// Other paths through training, on spaces that make more pairs than are aligned at once.
void check_five_spaces(const CheckOptions& options, std::vector<CheckPromise>& promises) {
  const Toy toy = options.quick ? Toy(256, {21, 16, 40, 9, 13}) : Toy(4096, {96, 161, 64, 33, 50});
  const Bundle covering = fit(toy.spaces(), covering_options(options, Device::cpu, Precision::fp32));
  const Bundle refined = fit(toy.spaces(), refined_options(options, Device::cpu, Precision::fp32));
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    const auto name = [&](const char* what) { return fmt::format("{}, {}", what, to_string(precision)); };
    promises.push_back(as_processor(
        name("coverage of all rows: losses"),
        loss_difference(fit(toy.spaces(), covering_options(options, options.device, precision)), covering)));
    promises.push_back(as_processor(
        name("refinement: losses"),
        refine_difference(fit(toy.spaces(), refined_options(options, options.device, precision)), refined)));
  }
}

}  // namespace

std::vector<CheckPromise> check_sequences(const CheckOptions& options) {
  std::vector<CheckPromise> promises;
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    const auto backend = make_backend(options.device, precision);
    const auto name = [&](const char* what) { return fmt::format("{}, {}", what, to_string(precision)); };
    const auto one_by_one = direct(*backend, Sequence::Parts::one_after_the_other);
    const auto beside = direct(*backend, Sequence::Parts::side_by_side);
    promises.push_back(
        same(name("operations again"), same_bits(one_by_one, direct(*backend, Sequence::Parts::one_after_the_other))));
    promises.push_back(same(name("side by side"), same_bits(one_by_one, beside)));
    promises.push_back(
        same(name("recorded"), same_bits(one_by_one, recorded(*backend, Sequence::Parts::one_after_the_other))));
    promises.push_back(
        same(name("recorded side by side"), same_bits(one_by_one, recorded(*backend, Sequence::Parts::side_by_side))));
  }
  return promises;
}

std::vector<CheckPromise> check_training(const CheckOptions& options) {
  const Toy toy = options.quick ? Toy(256, {21, 16, 40}) : Toy(4096, {96, 161, 64});
  const Bundle wanted = fit(toy.spaces(), fit_options(options, Device::cpu, Precision::fp32));
  std::vector<CheckPromise> promises;
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    if (missing(Place{options.device, precision, 0})) continue;
    const FitOptions chosen = fit_options(options, options.device, precision);
    const auto name = [&](const char* what) { return fmt::format("{}, {}", what, to_string(precision)); };
    const Bundle found = fit(toy.spaces(), chosen);
    promises.push_back(as_processor(name("training: losses against the processor's"), loss_difference(found, wanted)));
    promises.push_back(same(name("training again"), same_training(found, fit(toy.spaces(), chosen))));
    const std::optional<Bundle> resumed = fit_in_two_goes(toy, chosen);
    promises.push_back(same(name("training resumed halfway"), resumed && same_training(found, *resumed)));
  }
  check_five_spaces(options, promises);
  return promises;
}

}  // namespace kedge::test
