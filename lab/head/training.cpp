// SPDX-License-Identifier: Apache-2.0
#include "head/training.h"

#include "compute/device.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace kedge {
namespace {

/// Which hidden values are dropped, by 16 random bits for each of them.
struct Dropout {
  std::uint32_t limit;  ///< values whose bits are below are dropped
  float kept;           ///< factor of the others, which keeps the mean

  explicit Dropout(double share) {
    constexpr double kRange = 65536;
    limit = static_cast<std::uint32_t>(share * kRange);
    kept = static_cast<float>(1 / (1 - static_cast<double>(limit) / kRange));
  }

  /// The factor of each hidden value.
  void draw(Random& random, EigenRows<float>& keep) const {
    std::uint64_t bits = 0;
    for (Eigen::Index i = 0; i < keep.size(); ++i, bits >>= 16) {
      if (i % 4 == 0) bits = random.bits();
      keep.data()[i] = (bits & 0xffff) < limit ? 0 : kept;
    }
  }
};

void require_finite(double loss, const MlpTraining& training, std::size_t epoch) {
  if (std::isfinite(loss)) return;
  throw Error(Code::failed, fmt::format("{}: the loss is not finite in epoch {}; a lower learning rate may help",
                                        training.doing, epoch + 1));
}

/// Mean cross-entropy of a batch; replaces the outputs by its gradient.
double cross_entropy(std::span<const std::size_t> ids, std::span<const std::size_t> classes,
                     EigenRows<float>& outputs) {
  double loss = 0;
  const float share = 1 / static_cast<float>(ids.size());
  for (Eigen::Index r = 0; r < outputs.rows(); ++r) {
    auto row = outputs.row(r);
    const auto truth = static_cast<Eigen::Index>(classes[ids[static_cast<std::size_t>(r)]]);
    const float largest = row.maxCoeff();
    const float right = row[truth];
    row = (row.array() - largest).exp();
    const float sum = row.sum();
    loss += share * (std::log(sum) + largest - right);
    row *= share / sum;
    row[truth] -= share;
  }
  return loss;
}

/// The same for the mean squared error.
double squared_error(std::span<const std::size_t> ids, MatrixView<const float> targets, EigenRows<float>& outputs) {
  for (Eigen::Index r = 0; r < outputs.rows(); ++r) {
    outputs.row(r) -= as_eigen(targets.row(ids[static_cast<std::size_t>(r)]));
  }
  const double loss = outputs.squaredNorm() / static_cast<float>(outputs.size());
  outputs *= 2 / static_cast<float>(outputs.size());
  return loss;
}

/// The loss of a batch of either kind.
double replace_by_gradient(std::span<const std::size_t> ids, const MlpTruth& truth, EigenRows<float>& outputs) {
  return truth.classes.empty() ? squared_error(ids, truth.targets, outputs)
                               : cross_entropy(ids, truth.classes, outputs);
}

/// Called after every epoch with the number of epochs done and a way to read the mlp. Returns false to end training.
using Watch = std::function<bool(std::size_t epochs, const std::function<const Mlp<float>&()>& now)>;

Mlp<float> learn_on_processor(MatrixView<const float> features, const MlpTruth& truth, const MlpTraining& training,
                              const Watch& go_on) {
  Random random(training.seed);
  Mlp<float> mlp(training.shape, random);
  const Dropout dropout(training.dropout);
  Adam adam(mlp.parameters().size(), training.learning_rate, training.weight_decay);
  Mlp<float>::Trace trace;
  EigenRows<float> batch;
  EigenRows<float> keep;
  Eigen::VectorXf gradient;
  std::size_t epoch = 0;
  do {
    const std::vector<std::size_t> order = random.sample(features.rows, features.rows);
    for (std::size_t first = 0; first < order.size(); first += training.batch) {
      const auto ids = std::span(order).subspan(first, std::min(training.batch, order.size() - first));
      const auto rows = static_cast<Eigen::Index>(ids.size());
      batch.resize(rows, static_cast<Eigen::Index>(features.cols));
      for (Eigen::Index r = 0; r < rows; ++r) batch.row(r) = as_eigen(features.row(ids[static_cast<std::size_t>(r)]));
      if (training.dropout > 0) {
        keep.resize(rows, static_cast<Eigen::Index>(training.shape.hidden));
        dropout.draw(random, keep);
      }
      EigenRows<float> outputs = mlp.forward(batch, keep, trace);
      require_finite(replace_by_gradient(ids, truth, outputs), training, epoch);
      mlp.backward(keep, outputs, trace, gradient);
      adam.step(gradient, mlp.parameters());
    }
  } while (go_on(++epoch, [&]() -> const Mlp<float>& { return mlp; }));
  return mlp;
}

/// The host draws, the device learns.
Mlp<float> learn_on_device(MatrixView<const float> features, const MlpTruth& truth, const MlpTraining& training,
                           const Watch& go_on) {
  Random random(training.seed);
  Mlp<float> mlp(training.shape, random);
  const Dropout dropout(training.dropout);
  const MlpShape& shape = training.shape;
  const MlpRecipe recipe{shape.inputs,
                         shape.hidden,
                         shape.outputs,
                         shape.norms,
                         training.batch,
                         static_cast<float>(training.learning_rate),
                         static_cast<float>(training.weight_decay),
                         training.dropout > 0,
                         dropout.limit,
                         dropout.kept};
  const std::span<float> parameters(mlp.parameters().data(), static_cast<std::size_t>(mlp.parameters().size()));
  const auto trainer = make_mlp_trainer(recipe, features, truth, parameters, training.device);
  const auto now = [&]() -> const Mlp<float>& {
    trainer->read(parameters);
    return mlp;
  };
  std::size_t epoch = 0;
  do {
    trainer->start_epoch(random.sample(features.rows, features.rows));
    for (std::size_t done = 0; done < features.rows; done += training.batch) {
      for (std::uint64_t& bits : trainer->random_bits()) bits = random.bits();
      trainer->step();
    }
    require_finite(trainer->loss(), training, epoch);
  } while (go_on(++epoch, now));
  return now();
}

Mlp<float> learn(MatrixView<const float> features, const MlpTruth& truth, const MlpTraining& training,
                 const Watch& go_on) {
  return (off_processor(training.device) ? learn_on_device : learn_on_processor)(features, truth, training, go_on);
}

Mlp<float> learn_for(std::size_t epochs, MatrixView<const float> features, const MlpTruth& truth,
                     const MlpTraining& training, const Progress& progress) {
  return learn(features, truth, training, [&](std::size_t done, const auto&) {
    if (progress) progress({training.doing, done, epochs, ""});
    return done < epochs;
  });
}

/// Copies of some rows and their labels or targets, one after the other.
struct Part {
  Matrix features, targets;
  std::vector<std::size_t> classes;

  Part(std::span<const std::size_t> ids, MatrixView<const float> all, const MlpTruth& truth)
      : features(ids.size(), all.cols), targets(truth.classes.empty() ? ids.size() : 0, truth.targets.cols) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::ranges::copy(all.row(ids[i]), features.row(i).begin());
      if (!truth.classes.empty()) {
        classes.push_back(truth.classes[ids[i]]);
      } else {
        std::ranges::copy(truth.targets.row(ids[i]), targets.row(i).begin());
      }
    }
  }
  [[nodiscard]] MlpTruth truth() const {
    if (!classes.empty()) return {classes, {}};
    return {{}, targets.view()};
  }
};

/// A tenth of the rows, and the others. If rows have labels, a tenth of every class: the rows are shuffled, sorted by
/// class, and every tenth is held out.
struct Split {
  std::vector<std::size_t> learned, held_out;

  Split(std::size_t rows, const MlpTruth& truth, std::uint64_t seed) {
    Random random(seed);
    std::vector<std::size_t> order = random.sample(rows, rows);
    if (!truth.classes.empty()) {
      std::ranges::stable_sort(order, {}, [&](std::size_t id) { return truth.classes[id]; });
    }
    for (std::size_t i = 0; i < rows; ++i) {
      (i % HeadOptions::kHeldOutOneIn == HeadOptions::kHeldOutOneIn / 2 ? held_out : learned).push_back(order[i]);
    }
  }
};

std::size_t steps_of_epoch(std::size_t rows, std::size_t batch) {
  return (rows + batch - 1) / batch;
}

/// When training ends. Counted in steps, because Adam needs hundreds of them however few rows there are: held-out rows
/// are judged every kStepsBetweenLooks steps or more, and training ends after kPatience judgements without a gain.
constexpr std::size_t kStepsBetweenLooks = 20;
constexpr std::size_t kPatience = 4;
/// What counts as a gain, as a share of the loss of knowing nothing. Not of the best loss so far: on easy rows that
/// halves again and again without changing an answer.
constexpr double kGain = 2e-3;
constexpr std::size_t kMostSteps = 2000;
constexpr std::size_t kMostEpochs = 100;
/// With fewer rows, a held-out tenth is too few for its loss to mean anything.
constexpr std::size_t kLeastRowsToHoldOut = 50;
constexpr std::size_t kStepsForFewRows = 400;

/// The number of epochs that take at least so many steps.
std::size_t epochs_for(std::size_t steps, std::size_t rows, std::size_t batch) {
  const std::size_t each = steps_of_epoch(rows, batch);
  return std::max<std::size_t>(1, (steps + each - 1) / each);
}

/// The mlp as it was when its loss on held-out rows was lowest.
Mlp<float> learn_until_nothing_improves(MatrixView<const float> features, const MlpTruth& truth,
                                        const MlpTraining& training, const Progress& progress) {
  const Split split(features.rows, truth, training.seed);
  const Part learned(split.learned, features, truth);
  const Part held_out(split.held_out, features, truth);
  const EigenRows<float> unseen = as_eigen(held_out.features.view());
  std::vector<std::size_t> all(split.held_out.size());
  std::iota(all.begin(), all.end(), std::size_t{0});

  const std::size_t rows = split.learned.size();
  const std::size_t between = epochs_for(kStepsBetweenLooks, rows, training.batch);
  const std::size_t most = std::max(kMostEpochs, epochs_for(kMostSteps, rows, training.batch));
  // Targets are standardised, so always predicting their mean has an error of 1.
  const double gain = kGain * (truth.classes.empty() ? 1 : std::log(static_cast<double>(training.shape.outputs)));
  double lowest = std::numeric_limits<double>::infinity();
  double to_beat = lowest;
  std::size_t looks_since = 0;
  std::optional<Mlp<float>> kept;
  const Mlp<float> last =
      learn(learned.features.view(), learned.truth(), training, [&](std::size_t done, const auto& now) {
        if (progress) progress({training.doing, done, most, ""});
        if (done % between != 0) return done < most;
        const Mlp<float>& mlp = now();
        EigenRows<float> outputs = mlp.apply(unseen);
        const double loss = replace_by_gradient(all, held_out.truth(), outputs);
        if (loss < lowest) {
          lowest = loss;
          kept = mlp;
        }
        looks_since = loss < to_beat - gain ? 0 : looks_since + 1;
        if (looks_since == 0) to_beat = loss;
        return done < most && looks_since < kPatience;
      });
  return std::move(kept).value_or(last);
}

}  // namespace

Mlp<float> train_mlp(MatrixView<const float> features, const MlpTruth& truth, const MlpTraining& training,
                     const Progress& progress) {
  const std::size_t few = epochs_for(kStepsForFewRows, features.rows, training.batch);
  if (training.epochs > 0) return learn_for(training.epochs, features, truth, training, progress);
  if (features.rows < kLeastRowsToHoldOut) return learn_for(few, features, truth, training, progress);
  return learn_until_nothing_improves(features, truth, training, progress);
}

}  // namespace kedge
