// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

// The parts of a step of an mlp that are not products, each queued on a stream. Matrices of a batch have a row for each
// of its rows.
namespace kedge::cuda {

/// What a step leaves for the next, in the GPU's memory.
struct MlpState {
  double loss;  ///< summed over the steps of an epoch
  std::uint32_t taken;
  float rate, root;  ///< Adam's factors at this step
};

/// Adam with weight decay in the gradient.
struct MlpAdam {
  float learning_rate = 0, weight_decay = 0;
};

/// Hidden values whose random bits are below the limit are dropped, the others multiplied by `kept`.
struct MlpDropout {
  const std::uint16_t* bits = nullptr;  ///< one after the other by row; null: nothing is dropped
  std::uint32_t limit = 0;
  float kept = 1;
};

/// to = the column sums of values, or of values times others if there are others.
struct ColumnSum {
  ConstPanel values;
  const float* others = nullptr;  ///< of the same shape and stride
  float* to = nullptr;
};
struct MlpSums {
  static constexpr std::size_t kMost = 4;
  ColumnSum columns[kMost];  ///< those with null values are skipped
  const double* losses = nullptr;
  std::size_t rows = 0;
};

/// unit = LayerNorm of the rows of `features` whose turn it is, scaled = unit * scale + shift.
void level_rows(cudaStream_t stream, ConstPanel features, Ids ids, const float* scale, const float* shift, Panel unit,
                Panel scaled);
/// hidden = tanh(hidden + bias); unit = hidden after dropout and, if `norms`, a LayerNorm.
void activate(cudaStream_t stream, const float* bias, const MlpDropout& dropout, bool norms, Panel hidden, Panel unit,
              float* lengths);
/// Turns the gradient by unit into the gradient by the argument of tanh.
void activate_backward(cudaStream_t stream, ConstPanel hidden, ConstPanel unit, const float* lengths,
                       const MlpDropout& dropout, bool norms, Panel gradient);
/// Adds the bias to outputs and replaces them by the gradient of their mean cross-entropy; losses: one for each row.
void cross_entropy(cudaStream_t stream, const std::uint32_t* classes, Ids ids, const float* bias, Panel outputs,
                   double* losses);
/// The same for the mean squared difference to the targets.
void squared_error(cudaStream_t stream, ConstPanel targets, Ids ids, const float* bias, Panel outputs, double* losses);
/// Adds up columns and losses, and counts the step.
void sum_step(cudaStream_t stream, const MlpSums& sums, const MlpAdam& adam, MlpState* state);
/// Adam's step number state->taken.
void step_parameters(cudaStream_t stream, const float* gradient, const MlpAdam& adam, const MlpState* state,
                     std::size_t count, float* parameters, float* first_moment, float* second_moment);

}  // namespace kedge::cuda
