// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/whitening_basis.h"

#include <kedge/device.h>
#include <kedge/kernel.h>
#include <kedge/whitening.h>

#include <functional>

namespace kedge {

// Beyond these a kernel is a line, or knows no row but its own; or its system cannot be told from a singular one.
constexpr double kLeastWidth = 1e-3, kMostWidth = 64;
constexpr double kLeastStrength = 1e-9, kMostStrength = 1e6;

// Half-whitened rows find the same row of another space most often, but translate a little worse than these.
constexpr double kQuarter = 0.25;

/// What a kernel map is regressed on and to.
struct KernelTask {
  MatrixView<const double> support;  ///< rows x dim, as they are
  const Whitening& coordinates;      ///< of their space
  MatrixView<const double> targets;  ///< rows x outputs
  Device device = Device::cpu;
  MatrixView<const double> yardstick = {};  ///< rows x any: what is judged instead of the targets
  double usual_whitening = kHalf;           ///< of kHalf and kQuarter: taken unless another is clearly better
  std::function<void(double)> tell = {};    ///< called after each step, with its share of kernel_work()
};

/// A regression of the targets, whose values at x are bias + weight f(x) + coefficients^T q(width rows f(x)).
struct KernelRegression {
  Kernel kernel;
  Matrix64 weight;           ///< outputs x dim
  std::vector<double> bias;  ///< outputs
  KernelFit fit;
};

/// Chooses what the options leave open by the leave-one-out error in closed form, and solves for all rows. Rows that
/// are the same are left out together. If there are many, a part of them chooses. Throws Error(Code::bad_argument)
/// for options out of range.
[[nodiscard]] KernelRegression regress_kernel(const KernelTask& task, const KernelOptions& options);

/// Multiplications that a regression takes: to choose from so many rows, once, and to solve for all of them.
[[nodiscard]] double choice_work(std::size_t rows, std::size_t dim);
[[nodiscard]] double kernel_work(std::size_t rows, std::size_t dim, std::size_t outputs);
/// The memory it takes.
[[nodiscard]] std::size_t kernel_bytes(std::size_t rows, std::size_t dim, std::size_t outputs);

/// Throws Error(Code::bad_argument) for options out of range.
void require_valid(const KernelOptions& options);

}  // namespace kedge
