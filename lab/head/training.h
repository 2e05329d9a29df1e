// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "head/device_heads.h"
#include "head/mlp.h"

#include <kedge/lab/head.h>

namespace kedge {

/// How an mlp is learned from rows in batches.
struct MlpTraining {
  MlpShape shape;
  std::size_t epochs = 0;  ///< 0: until a held-out share of the rows stops improving
  std::size_t batch = 0;
  double learning_rate = 0, weight_decay = 0, dropout = 0;
  std::uint64_t seed = 0;
  std::string_view doing;  ///< its name in progress reports
  Device device = Device::cpu;
};

/// Adam on shuffled batches; the last batch of an epoch may be smaller. Without a number of epochs, a tenth of the rows
/// is held out, training goes on until the loss on them stops falling, and the mlp with the lowest loss is returned.
/// (Training another one on all rows for as long would take twice the time and is hardly better.) All devices start and
/// draw alike, so their heads differ by rounding only. Throws Error(Code::failed) if the loss is not finite.
[[nodiscard]] Mlp<float> train_mlp(MatrixView<const float> features, const MlpTruth& truth, const MlpTraining& training,
                                   const Progress& progress);

}  // namespace kedge
