// SPDX-License-Identifier: Apache-2.0
#include "head/device_heads.h"

namespace kedge {

std::unique_ptr<MlpTrainer> make_mlp_trainer(const MlpRecipe&, MatrixView<const float>, const MlpTruth&,
                                             std::span<const float>, Device device) {
  require_device(device);
  return nullptr;  // it has thrown
}

std::unique_ptr<LogisticRows> make_logistic_rows(MatrixView<const float>, std::span<const double>,
                                                 std::span<const std::size_t>, std::size_t, Device device) {
  require_device(device);
  return nullptr;
}

}  // namespace kedge
