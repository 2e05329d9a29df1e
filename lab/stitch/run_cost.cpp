// SPDX-License-Identifier: Apache-2.0
#include "stitch/run_cost.h"

#include "fit/fit.h"
#include "regress/kernel_ridge.h"

#include <algorithm>
#include <cmath>

// The order of the runs and the share that is done follow from a guess of what each run costs, before any row is read.
// It counts the products of matrices, which is where the time goes, and nothing else: a product of m x k and k x n is
// 2 m k n operations, and its gradient two more products. A guess that is wrong by a factor of two costs a moment at
// the end of a stitch, when some threads have nothing left to do; methods differ by factors of a hundred.
//
// With n train rows and sources of d values each, D of them in all:
// - whitening a source: an eigendecomposition, about 10 d^3
// - anchors in closed form: the moments of all sources side by side, 2 n D^2
// - PARAM, for each batch of b rows in each epoch, with m anchors, K support rows and p pairs of sources:
//   P S and its gradient by P, 4 m K D (S itself is not learned); X A^T and its gradient by A, 4 b m D; the cosines of
//   relative representations and their gradients on both sides, 6 b^2 m for each pair
// - a head on f features, for each pass over the rows: forwards, backwards by the weights and by the layer below,
//   6 n f h with h hidden values (as many as features in a classifier)
namespace kedge {
namespace {

using Anchors = StitchMethod::Anchors;

/// Operations of the maps by kernel: two for each multiplication.
double kernel_cost(const PlannedRun& run, const StitchData& data, const FitArguments& point) {
  double cost = 0;
  const std::size_t rows = train_rows(data);
  for (const StitchMethod& method : run.methods) {
    const FitOptions options = fit_options_of(method, point, run.seed, rows);
    if (run.sources.empty() || attach_by(options) != AttachBy::kernel) continue;
    for (const Space& space : data.spaces) {
      cost += 2 * kernel_work(support_size(options, rows), space.dim(), anchor_count(options, rows));
    }
  }
  return cost;
}

double fit_cost(const PlannedRun& run, const StitchData& data, const FitArguments& point) {
  const auto rows = static_cast<double>(train_rows(data));
  double values = 0;
  double whitening = 0;
  for (const std::size_t i : run.sources) {
    const auto dim = static_cast<double>(data.spaces[i].dim());
    values += dim;
    whitening += 10 * dim * dim * dim;
  }
  if (run.sources.empty()) return 0;
  const Anchors anchors = run.methods.front().anchors;
  const bool learned = anchors == Anchors::param_single || anchors == Anchors::param_multi;
  if (!learned) return whitening + 2 * rows * values * values;
  const auto m = static_cast<double>(anchor_count(point, train_rows(data)));
  const auto support = static_cast<double>(support_size(point, train_rows(data)));
  const double batch = std::min(static_cast<double>(point.param.batch), rows);
  const auto pairs = static_cast<double>(run.sources.size() * (run.sources.size() - 1)) / 2;
  const double step = 4 * m * support * values + 4 * batch * m * values + 6 * batch * batch * m * pairs;
  return whitening + step * std::floor(rows / batch) * static_cast<double>(point.param.epochs);
}

/// Operations of the classifier and the decoder on features of one space.
double head_cost(double rows, std::size_t features, const StitchData& data, const HeadOptions& head) {
  constexpr std::size_t kPasses = 30;  // a typical number until nothing improves
  constexpr double kSolved = 2;        // a solved head costs about as many passes
  const bool mlp = head.kind == HeadKind::mlp;
  const double passes = mlp ? static_cast<double>(head.epochs.value_or(kPasses)) : kSolved;
  double cost = 6 * rows * static_cast<double>(features * features) * passes;
  if (data.targets && mlp) {
    const std::size_t hidden = head.hidden.value_or(HeadOptions::kDecoderHidden);
    cost += 6 * rows * static_cast<double>(hidden * data.targets->cols()) * passes;
  }
  return cost;
}

}  // namespace

double run_cost(const PlannedRun& run, const StitchData& data, const StitchOptions& options) {
  const FitArguments& point = options.points[run.point];
  double heads = 0;
  std::vector<std::size_t> trained;  // spaces with a head, which serves all encoders it is judged on
  for (const auto& [trained_on, encoder] : run.pairs) {
    if (data.labels.empty() && !data.targets) break;
    if (std::ranges::count(trained, trained_on) > 0) continue;
    trained.push_back(trained_on);
    const std::size_t features =
        run.sources.empty() ? data.spaces[trained_on].dim() : anchor_count(point, train_rows(data));
    heads += head_cost(static_cast<double>(train_rows(data)), features, data, options.head);
  }
  return 1 + fit_cost(run, data, point) + kernel_cost(run, data, point) +
         heads * static_cast<double>(run.methods.size());
}

}  // namespace kedge
