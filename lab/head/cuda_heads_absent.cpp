// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cuda.h"
#include "head/cuda/cuda_heads.h"

namespace kedge::cuda {

std::unique_ptr<MlpTrainer> make_mlp_trainer(const MlpRecipe&, MatrixView<const float>, const MlpTruth&,
                                             std::span<const float>) {
  require();
  return nullptr;  // require() has thrown
}

std::unique_ptr<LogisticRows> make_logistic_rows(MatrixView<const float>, std::span<const double>,
                                                 std::span<const std::size_t>, std::size_t) {
  require();
  return nullptr;
}

}  // namespace kedge::cuda
