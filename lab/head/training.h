// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "head/device_heads.h"
#include "head/mlp.h"

#include <kedge/lab/head.h>

namespace kedge {

/// How an mlp is learned from rows in batches.
struct MlpTraining {
  MlpShape shape;
  std::size_t epochs = 0;  ///< 0: as many as a held-out share of the rows asks for
  std::size_t batch = 0;
  double learning_rate = 0, weight_decay = 0, dropout = 0;
  std::uint64_t seed = 0;
  std::string_view doing;  ///< what progress calls it
  Device device = Device::cpu;
};

/// Adam on shuffled batches, the last of an epoch being as small as the rows leave it. Without a number of epochs, the
/// mlp is trained without a tenth of the rows until its loss on them no longer falls, and is given back as it was when
/// that was lowest; another one trained on all rows for as long would take twice the time and is hardly better. Every
/// device starts and draws alike, so that only rounding tells their heads apart.
/// Throws Error(Code::failed) if the loss is not finite.
[[nodiscard]] Mlp<float> train_mlp(MatrixView<const float> features, const MlpTruth& truth, const MlpTraining& training,
                                   const Progress& progress);

}  // namespace kedge
