// SPDX-License-Identifier: Apache-2.0
#include "head/training.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>
#include <cmath>

namespace kedge {
namespace {

/// What each hidden value is multiplied with, so that its mean stays: 0, or 1 / (1 - dropout).
void draw_dropout(Random& random, double dropout, EigenRows<float>& keep) {
  constexpr double kRange = 65536;
  const auto limit = static_cast<std::uint64_t>(dropout * kRange);
  const auto kept = static_cast<float>(1 / (1 - static_cast<double>(limit) / kRange));
  std::uint64_t bits = 0;
  for (Eigen::Index i = 0; i < keep.size(); ++i, bits >>= 16) {
    if (i % 4 == 0) bits = random.bits();
    keep.data()[i] = (bits & 0xffff) < limit ? 0 : kept;
  }
}

}  // namespace

Mlp<float> train_mlp(MatrixView<const float> features, const MlpTraining& training, const OutputLoss& loss,
                     const Progress& progress) {
  Random random(training.seed);
  Mlp<float> mlp(training.shape, random);
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
        draw_dropout(random, training.dropout, keep);
      }
      EigenRows<float> outputs = mlp.forward(batch, keep, trace);
      if (!std::isfinite(loss(ids, outputs))) {
        throw Error(Code::failed, fmt::format("{}: the loss is not finite in epoch {}; a lower learning rate may help",
                                              training.doing, epoch + 1));
      }
      mlp.backward(keep, outputs, trace, gradient);
      adam.step(gradient, mlp.parameters());
    }
    if (progress) progress({training.doing, epoch + 1, training.epochs, ""});
  }
  return mlp;
}

}  // namespace kedge
