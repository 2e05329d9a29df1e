// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/matrix.h>

#include <memory>
#include <span>
#include <vector>

namespace kedge {

/// The linear system of a kernel between some rows, k(a, b) = exp(width (a.b - 1)), with a ridge on its diagonal. In
/// float64, and in no more memory than the matrix itself takes.
class KernelSystem {
 public:
  virtual ~KernelSystem() = default;

  /// Call it before the others, as often as you like. False if the matrix is singular up to rounding.
  [[nodiscard]] virtual bool factor(double width, double ridge) = 0;
  /// x = (K + ridge I)^-1 x, for the columns of x; x has as many rows as the system.
  virtual void solve(MatrixView<double> x) const = 0;
  /// Values of the diagonal of (K + ridge I)^-1 at these positions, which must ascend.
  [[nodiscard]] virtual std::vector<double> inverse_diagonal(std::span<const std::size_t> positions) const = 0;
};

/// `rows` have length 1, or 0.
[[nodiscard]] std::unique_ptr<KernelSystem> make_kernel_system(MatrixView<const float> rows, Device device);

}  // namespace kedge
