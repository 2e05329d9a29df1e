// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/whitening.h"

#include <kedge/kernel.h>

#include <functional>

namespace kedge {

// Outside of these a kernel is linear, or sees no other row, or its system is numerically singular.
constexpr double kLeastWidth = 1e-3, kMostWidth = 64;
constexpr double kLeastStrength = 1e-9, kMostStrength = 1e6;

/// What a kernel map is regressed on and to.
struct KernelTask {
  MatrixView<const double> support;  ///< rows x dim, not centred
  const Whitening& coordinates;      ///< of their space
  MatrixView<const double> targets;  ///< rows x outputs
  Device device = Device::cpu;
  /// Whether the targets are rows of another space, which the values take the place of: their variance is restored.
  bool translates = false;
  const Whitening* onto = nullptr;  ///< coordinates of the targets that the values are wanted in, if not as they are
  std::function<void(double)> tell = {};  ///< called after each step with the part of kernel_work() that is done
};

/// A regression of the targets, whose values at x are bias + weight f(x) + coefficients^T q(width rows f(x)).
struct KernelRegression {
  Kernel kernel;
  Matrix64 weight;           ///< outputs x dim
  std::vector<double> bias;  ///< outputs
  KernelFit fit;
};

/// Chooses what the options leave open by the leave-one-out error in closed form, on a part of many rows, and solves
/// for all rows. Equal rows are left out together. Throws Error(Code::bad_argument) for options out of range.
[[nodiscard]] KernelRegression regress_kernel(const KernelTask& task, const KernelOptions& options);

/// Multiplications for one error of a choice with so many rows, and for a whole regression.
[[nodiscard]] double choice_work(std::size_t rows, std::size_t dim);
[[nodiscard]] double kernel_work(std::size_t rows, std::size_t dim, std::size_t outputs);
/// The memory of a regression.
[[nodiscard]] std::size_t kernel_bytes(std::size_t rows, std::size_t dim, std::size_t outputs);

/// Throws Error(Code::bad_argument) for options out of range.
void require_valid(const KernelOptions& options);

}  // namespace kedge
