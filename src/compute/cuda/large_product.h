// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cuda/lane.h"
#include "compute/cuda/product.h"

namespace kedge::cuda {

/// A product in tf32 of few rows with a large matrix, as a mixture has with its support, by a setting of cuBLASLt that
/// was measured to be faster than the one it chooses. False, and nothing is queued, where none is known or cuBLASLt
/// refuses it.
[[nodiscard]] bool multiply_large(const Lane& lane, const Product& product);

}  // namespace kedge::cuda
