// SPDX-License-Identifier: Apache-2.0
#include "head/training.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>
#include <cmath>

namespace kedge {
namespace {

/// Which hidden values are dropped, by 16 random bits for each of them.
struct Dropout {
  std::uint32_t limit;  ///< those whose bits are below are dropped
  float kept;           ///< what the others are multiplied with, so that the mean stays

  explicit Dropout(double share) {
    constexpr double kRange = 65536;
    limit = static_cast<std::uint32_t>(share * kRange);
    kept = static_cast<float>(1 / (1 - static_cast<double>(limit) / kRange));
  }

  /// What each hidden value is multiplied with.
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

/// Mean cross-entropy of a batch, whose outputs are replaced by its gradient.
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

Mlp<float> train_on_processor(MatrixView<const float> features, const MlpTruth& truth, const MlpTraining& training,
                              const Progress& progress) {
  Random random(training.seed);
  Mlp<float> mlp(training.shape, random);
  const Dropout dropout(training.dropout);
  Adam adam(mlp.parameters().size(), training.learning_rate, training.weight_decay);
  Mlp<float>::Trace trace;
  EigenRows<float> batch;
  EigenRows<float> keep;
  Eigen::VectorXf gradient;
  for (std::size_t epoch = 0; epoch < training.epochs; ++epoch) {
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
      const double loss = truth.classes.empty() ? squared_error(ids, truth.targets, outputs)
                                                : cross_entropy(ids, truth.classes, outputs);
      require_finite(loss, training, epoch);
      mlp.backward(keep, outputs, trace, gradient);
      adam.step(gradient, mlp.parameters());
    }
    if (progress) progress({training.doing, epoch + 1, training.epochs, ""});
  }
  return mlp;
}

/// The host draws, the GPU learns.
Mlp<float> train_on_gpu(MatrixView<const float> features, const MlpTruth& truth, const MlpTraining& training,
                        const Progress& progress) {
  Random random(training.seed);
  Mlp<float> mlp(training.shape, random);
  const Dropout dropout(training.dropout);
  const MlpShape& shape = training.shape;
  const cuda::MlpRecipe recipe{shape.inputs,
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
  const auto trainer = cuda::make_mlp_trainer(recipe, features, truth, parameters);
  for (std::size_t epoch = 0; epoch < training.epochs; ++epoch) {
    trainer->start_epoch(random.sample(features.rows, features.rows));
    for (std::size_t done = 0; done < features.rows; done += training.batch) {
      for (std::uint64_t& bits : trainer->random_bits()) bits = random.bits();
      trainer->step();
    }
    require_finite(trainer->loss(), training, epoch);
    if (progress) progress({training.doing, epoch + 1, training.epochs, ""});
  }
  trainer->read(parameters);
  return mlp;
}

}  // namespace

Mlp<float> train_mlp(MatrixView<const float> features, const MlpTruth& truth, const MlpTraining& training,
                     const Progress& progress) {
  const auto train = training.device == Device::cuda ? train_on_gpu : train_on_processor;
  return train(features, truth, training, progress);
}

}  // namespace kedge
