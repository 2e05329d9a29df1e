// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

// The parts of a logistic regression that are not products, in float64, each queued on a stream.
namespace kedge::cuda {

/// Makes rows of `width` values: the features less their mean, then a one, then zeros.
void centre_rows(cudaStream_t stream, ConstPanel features, const double* mean, std::size_t width, double* to);
/// Replaces logits, a row of them for each row, by the gradient of their mean cross-entropy.
/// `losses`: a double for each row; their sum goes to `loss`.
void softmax_loss(cudaStream_t stream, const std::uint32_t* classes, std::size_t rows, std::size_t class_count,
                  double* logits, double* losses, double* loss);

}  // namespace kedge::cuda
