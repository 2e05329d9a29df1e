// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <string>
#include <vector>

namespace kedge::test {

struct CheckOptions {
  Device device = Device::cuda;
  bool quick = false;  ///< small sizes only, for tools that slow every access down
};

/// One line of the table.
struct CheckRow {
  std::string name;
  double fp32 = 0, tf32 = 0, bf16 = 0;  ///< worst relative error
  std::string worst;                    ///< size of the worst one in fp32
  bool passed = true;
};

constexpr double kFp32Tolerance = 1e-5, kTf32Tolerance = 2e-3, kBf16Tolerance = 2e-2;
constexpr double kLossTolerance = 5e-3;  ///< of training, relative to the processor's losses

/// Every operation at every size against plain loops, or against the processor's own if loops would take too long.
[[nodiscard]] std::vector<CheckRow> check_operations(const CheckOptions& options);

/// A promise that holds or does not, and the number it was judged by.
struct CheckPromise {
  std::string what, found;
  bool passed = true;
};

/// Same bits twice, side by side and recorded; training against the processor's, again, and resumed; refinement.
[[nodiscard]] std::vector<CheckPromise> check_sequences(const CheckOptions& options);
[[nodiscard]] std::vector<CheckPromise> check_training(const CheckOptions& options);
/// Statistics, whitening, transform and ranks against the processor's.
[[nodiscard]] std::vector<CheckPromise> check_library(const CheckOptions& options);
/// Kernel functions, and the linear systems they are solved from.
[[nodiscard]] std::vector<CheckPromise> check_kernel_maps(const CheckOptions& options);
/// Classifiers and decoders against those the processor trains.
[[nodiscard]] std::vector<CheckPromise> check_heads(const CheckOptions& options);

}  // namespace kedge::test
