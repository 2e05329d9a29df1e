// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "head/mlp.h"

#include <kedge/head.h>

#include <functional>

namespace kedge {

/// How an mlp is learned from rows in batches.
struct MlpTraining {
  MlpShape shape;
  std::size_t epochs = 0, batch = 0;
  double learning_rate = 0, weight_decay = 0, dropout = 0;
  std::uint64_t seed = 0;
  std::string_view doing;  ///< what progress calls it
};

/// Replaces a batch of outputs by the gradient of its loss, which it returns; `ids` are the rows of the batch.
using OutputLoss = std::function<double(std::span<const std::size_t> ids, EigenRows<float>& outputs)>;

/// Adam on shuffled batches, the last of an epoch being as small as the rows leave it. Throws Error(Code::failed) where
/// the loss is not finite.
[[nodiscard]] Mlp<float> train_mlp(MatrixView<const float> features, const MlpTraining& training,
                                   const OutputLoss& loss, const Progress& progress);

}  // namespace kedge
